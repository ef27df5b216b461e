"""Headers with a meaning of their own. Pure data."""

SIGNATURE_HEADER = "andon-signature"
"""Header in which a task's signature travels and is kept (`andon.signing`)."""

OF_THE_CALL = frozenset(
    {"traceparent", "tracestate", "baggage", "andon-dependencies", SIGNATURE_HEADER}
)
"""Headers in which a trace travels (W3C Trace Context and Baggage), and the signature: they may be
new with every call, so they take no part in what makes a submit the same, nor in what is signed."""
