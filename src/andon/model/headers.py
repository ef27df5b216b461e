"""Headers with a meaning of their own. Pure data."""

SIGNATURE_HEADER = "andon-signature"
"""Header in which a task's signature travels and is kept (`andon.signing`)."""

RESULTS_HEADER = "andon-results"
"""Header that names the arguments in which results of dependencies are to be filled in
(`andon.lifecycle.placeholders`)."""

FLOW_HEADER = "andon-flow"
"""Header of the first task of a flow: what the flow is, as JSON (`andon.lifecycle.flows`)."""

FLOW_TAG = "andon-flow"
"""Tag of the first task of a flow, by which flows are listed."""

RUN_HEADER = "andon-run"
"""Header of the tasks that a run fans out: `TASK/RUN`, by their ids (`andon.lifecycle.fan_out`)."""

BEFORE_HEADER = "andon-before"
"""Header of a follow-up that a blocked task, the one with this id, is to wait for
(`andon.lifecycle.joins`)."""

OF_THE_CALL = frozenset(
    {"traceparent", "tracestate", "baggage", "andon-dependencies", SIGNATURE_HEADER}
)
"""Headers in which a trace travels (W3C Trace Context and Baggage), and the signature: they may be
new with every call, so they take no part in what makes a submit the same, nor in what is signed."""
