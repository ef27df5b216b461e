"""Submit a graph as a decision task does, by taskgraph's own code; run in its own environment.

In: {"decision": task id, "queue", "levels": tasks in each level}. The service and the credentials
are in the environment, as the worker of a decision task sets them. Out: what each task depends on,
and what taskgraph reads of them all.
"""

import json
import sys

import slugid
from taskgraph.create import create_tasks
from taskgraph.graph import Graph
from taskgraph.task import Task
from taskgraph.taskgraph import TaskGraph
from taskgraph.util.taskcluster import list_task_group_incomplete_tasks, status_task_batched

given = json.load(sys.stdin)
provisioner, worker_type = given["queue"].split("/")
levels = []
tasks, edges, labels = {}, set(), {}
for level, size in enumerate(given["levels"]):
    levels.append([slugid.nice() for _ in range(size)])
    for number, task_id in enumerate(levels[-1]):
        label = f"level-{level}-{number}"
        before = levels[level - 1] if level else []
        needed = [before[(number + step) % len(before)] for step in range(min(3, len(before)))]
        edges |= {(task_id, one, f"edge-{place}") for place, one in enumerate(needed)}
        labels[label] = task_id
        definition = {
            "provisionerId": provisioner,
            "workerType": worker_type,
            "created": {"relative-datestamp": "0 seconds"},
            "deadline": {"relative-datestamp": "1 day"},
            "expires": {"relative-datestamp": "28 days"},
            "dependencies": list(needed),
            "payload": {"command": ["build", label], "maxRunTime": 3600},
            "metadata": {
                "name": label,
                "description": "of a graph",
                "owner": "nobody@example.com",
                "source": "https://example.com/taskcluster/ci",
            },
            "tags": {"kind": f"level-{level}", "label": label},
            "extra": {"treeherder": {"symbol": "B", "groupName": "x" * 500}},
            "priority": "low",
        }
        task = Task(kind="build", label=label, attributes={}, task=definition)
        task.task_id = task_id
        tasks[task_id] = task

graph = TaskGraph(tasks, Graph(frozenset(tasks), frozenset(edges)))
create_tasks({"trust-domain": "gecko"}, graph, labels, {"level": "1"}, given["decision"])
statuses = status_task_batched(list(tasks))
json.dump(
    {
        "tasks": {task_id: task.task["dependencies"] for task_id, task in tasks.items()},
        "states": sorted({status["state"] for status in statuses.values()}),
        "incomplete": sorted(list_task_group_incomplete_tasks(given["decision"])),
        "group": sorted({status["taskGroupId"] for status in statuses.values()}),
        "scheduler": sorted({status["schedulerId"] for status in statuses.values()}),
    },
    sys.stdout,
)
