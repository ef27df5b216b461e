"""The names of a store's settings, and which of them a copy takes.

A store lists no settings, so each one stands here. Values are bytes that only their owner reads.
"""

RETENTION_SETTING = "retention"
"""Store-wide default retention in seconds for every terminal state (docs/rulings.md, R21), as
decimal text."""

PLACE_SETTING = "artifacts"
"""URL of the place of artifacts, for every client of the store."""

ROOT_SETTING = "artifacts-root"
"""The namespace's folder in the place: random, so that namespaces may share one."""

SWEPT_SETTING = "artifacts-swept"
"""Ms UTC of the newest sweep of artifacts."""

TOKENS_SETTING = "api-tokens"
"""The tokens that a service accepts, hashed."""

KEYS_SETTING = "run-token-keys"
"""The keys that sign the tokens of runs."""

TASKCLUSTER_SETTING = "taskcluster-clients"
"""The clients and roles of the Taskcluster face, and the key that their access tokens come from."""

COPY_SETTING = "copy"
"""Which copy fills the store."""

POLICIES_SETTING = "retry-policies"
"""The named retry policies, as JSON: options by name (`lifecycle.named`)."""

AUDIT_SETTING = "audit"
"""The audit list, newest last, as JSON (`engine.audit`)."""

MINUTES_SETTINGS = tuple(f"minutes-{place:02}" for place in range(25))
"""One-minute roll-ups, an hour in each, written in turn (`engine.rollups`)."""

ALERTS_SETTING = "alerts"
"""The alert rules, their targets with secrets, and the key that seals notices, as JSON
(`engine.alerts`)."""

MOVING = (
    RETENTION_SETTING,
    POLICIES_SETTING,
    PLACE_SETTING,
    TOKENS_SETTING,
    KEYS_SETTING,
    TASKCLUSTER_SETTING,
    AUDIT_SETTING,
    ALERTS_SETTING,
)
"""Settings of the namespace that are copied before its tasks, so that runs in hand keep their
tokens."""

MOVING_LAST = (ROOT_SETTING,)
"""Settings that are copied after every task: a store that knows the folder deletes files that
belong to none of its tasks."""

STAYING = (SWEPT_SETTING, COPY_SETTING, *MINUTES_SETTINGS)
"""Settings that are only true of one store, and are not copied."""
