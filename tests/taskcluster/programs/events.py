"""What the client's event classes bind to: exchange and routing key pattern, by method."""

import json
import sys

import taskcluster

events = taskcluster.QueueEvents({"rootUrl": "https://tc.example.org"})
given = json.load(sys.stdin)
asked = {}
for method, key in given.items():
    binding = getattr(events, method)(key)
    asked[method] = {
        "exchange": binding["exchange"],
        "routingKeyPattern": binding["routingKeyPattern"],
    }
json.dump(asked, sys.stdout)
