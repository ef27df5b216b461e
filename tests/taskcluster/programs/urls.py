"""Fetch artifacts by the URLs that the Python client builds; run in its own environment.

In: {"rootUrl", "credentials", "task", "public", "private"}. Out: by name, the status and the text.
"""

import json
import sys
import urllib.error
import urllib.request

import taskcluster

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
json.dump(said, sys.stdout)
