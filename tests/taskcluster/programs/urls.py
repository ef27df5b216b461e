"""Fetch artifacts by the URLs that the Python client builds; run in its own environment.

In: {"rootUrl", "credentials", "task", and names: "public", "private", "link", "lost"}. Out: by
name, the status and the text; of a download the text and its type.
"""

import json
import sys
import urllib.error
import urllib.request

import taskcluster
from taskcluster.download import downloadArtifactToBuf
from taskcluster.exceptions import TaskclusterArtifactError

given = json.load(sys.stdin)
TASK = given["task"]
anybody = taskcluster.Queue({"rootUrl": given["rootUrl"]})
signing = taskcluster.Queue({"rootUrl": given["rootUrl"], "credentials": given["credentials"]})


def fetched(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return [answer.status, answer.read().decode()]
    except urllib.error.HTTPError as error:
        return [error.code, json.load(error)["code"]]


said = {}
for name in ("public", "private"):
    path = given[name]
    said[f"{name} of the run"] = fetched(anybody.buildUrl("getArtifact", TASK, "0", path))
    said[f"{name} latest"] = fetched(anybody.buildUrl("getLatestArtifact", TASK, path))
    said[f"{name} signed"] = fetched(signing.buildSignedUrl("getLatestArtifact", TASK, path))
told = anybody.latestArtifact(TASK, given["public"])
said["told"] = [told["storageType"], *fetched(told["url"])]
for name, run in (("public", "0"), ("private", None), ("link", None)):
    got, kind = downloadArtifactToBuf(
        taskId=TASK, runId=run, name=given[name], queueService=signing, maxRetries=0
    )
    said[f"{name} downloaded"] = [bytes(got).decode(), kind]
try:
    downloadArtifactToBuf(taskId=TASK, name=given["lost"], queueService=signing, maxRetries=0)
except TaskclusterArtifactError as error:
    said["lost downloaded"] = [str(error), error.reason]
json.dump(said, sys.stdout)
