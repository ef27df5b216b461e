"""The pages of `board.py`, asked for over HTTP: how long each takes, and what it has others do."""

import time
from typing import Any
from urllib.parse import urlencode

import board_filling
import httpx
from board_served import Served, spread
from board_stores import Filled

WARMING = 2

HAS_NO_INDEX = ("tasks: of a name alone", "tasks: pending of a rare name", "search: nothing")
"""No index has these: a page shows what a short look finds, and goes on."""


def pages(store: Filled) -> dict[str, str]:
    """Every page, and what of the lists is asked for in another way, by name."""
    deep = urlencode({"cursor": store.deep, "order": "newest"})
    rare = board_filling.NEEDLE_NAME
    return {
        "andon": "/",
        "tasks": "/tasks",
        "tasks: deep in the list": f"/tasks?{deep}",
        "tasks: completed": "/tasks?state=completed",
        "tasks: failed": "/tasks?state=failed",
        "tasks: failed of one name": f"/tasks?state=failed&name={rare}",
        "tasks: failed of a frequent name": "/tasks?state=failed&name=bench.step0",
        "tasks: failed, name and queue": "/tasks?state=failed&name=bench.step0&queue=queue-3",
        "tasks: of one queue": "/tasks?queue=queue-3",
        "tasks: pending of one queue": "/tasks?queue=queue-3&state=pending",
        "tasks: active": "/tasks?state=active",
        "tasks: due first": "/tasks?state=scheduled",
        "tasks: oldest first": "/tasks?order=oldest",
        "tasks: of a key": "/tasks?key=customer-10",
        "tasks: failed of a key": "/tasks?key=customer-10&state=failed",
        "tasks: of a group": f"/tasks?group={board_filling.FLOW}",
        "tasks: of a frequent tag": "/tasks?tag=web",
        "tasks: of a rare tag": "/tasks?tag=rare",
        "tasks: failed of a frequent tag": "/tasks?tag=web&state=failed",
        "tasks: of a worker": "/tasks?worker=worker-1",
        "tasks: of a frequent name": "/tasks?name=bench.step0",
        "tasks: of a name alone": f"/tasks?name={rare}",
        "tasks: pending of a rare name": f"/tasks?state=pending&name={rare}",
        "tasks: id begins so, few": "/tasks?id=needle",
        "tasks: id begins so, most": "/tasks?id=0",
        "task": f"/tasks/{store.needle}",
        "task, as another system has it": f"/tasks/{store.needle}?as=taskcluster",
        "dead letters": "/dead-letters",
        "dead letters of a queue": "/dead-letters?queue=queue-3",
        "dead letters, listed": "/dead-letters/list",
        "queues": "/queues",
        "queue": "/queues/queue-3",
        "types": "/types",
        "type": "/types/bench.step0",
        "workers": "/workers",
        "schedules": "/schedules",
        "schedule": "/schedules/daily-1",
        "new schedule": "/schedules/~new",
        "flows": "/flows",
        "flow": f"/flows/{board_filling.FLOW}",
        "flow of 500": f"/flows/{board_filling.LARGE_FLOW}",
        "alerts": "/alerts",
        "tokens": "/tokens",
        "audit": "/audit",
        "audit of an actor": f"/audit?actor={board_filling.ACTOR}",
        "doctor": "/doctor",
        "search: an id": f"/search?q={store.needle}",
        "search: how an id begins": "/search?q=needle-",
        "search: a name": f"/search?q={rare}",
        "search: a key": "/search?q=customer-10",
        "search: a tag": "/search?q=rare",
        "search: a group": f"/search?q={board_filling.FLOW}",
        "search: nothing": "/search?q=nothing-like-it",
    }


def measure(served: Served, store: Filled, rounds: int) -> dict[str, Any]:
    """How long each page takes, ms, asked for in turn, so that what one has read lately serves few
    others; and in the mean what processor time of the service and of the server, ms, and how many
    commands of a server that counts them."""
    found: dict[str, dict[str, Any]] = {}
    asked = pages(store)
    taken: dict[str, list[float]] = {name: [] for name in asked}
    used: dict[str, list[float]] = {name: [0.0, 0.0] for name in asked}
    ran: dict[str, list[int]] = {name: [] for name in asked}
    with httpx.Client(base_url=served.url, timeout=60, follow_redirects=True) as http:
        for number in range(WARMING + rounds):
            for name, path in asked.items():
                commands = store.commands() if number >= WARMING else None
                cpu, server = served.cpu_s, store.server_cpu_s
                begun = time.perf_counter()
                answer = http.get(path)
                ms = (time.perf_counter() - begun) * 1000
                if answer.status_code != 200 and not path.startswith("/search"):
                    raise SystemExit(f"{path} answered {answer.status_code}: {answer.text[:500]}")
                if number < WARMING:
                    continue
                taken[name].append(ms)
                used[name][0] += served.cpu_s - cpu
                used[name][1] += store.server_cpu_s - server
                if commands is not None:
                    ran[name].append((store.commands() or 0) - commands)
                found[name] = {"kb": round(len(answer.content) / 1000, 1)}
    for name, ms in taken.items():
        found[name] |= spread(ms) | {
            "cpu": round(1000 * used[name][0] / rounds, 1),
            "server_cpu": round(1000 * used[name][1] / rounds, 1),
        }
        if ran[name]:
            found[name]["commands"] = sorted(ran[name])[len(ran[name]) // 2]
    return found
