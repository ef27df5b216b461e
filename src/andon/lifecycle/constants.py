"""Constants shared by stores, their SQL and Lua, and the engine. Pure.

`STATEMENT_CONSTANTS` are those that SQL and Lua name, as `{{submit_window_ms}}`; the loaders of
their files put in the values (`stores.kit.templates`).
"""

from collections.abc import Mapping

from andon.model.task import MAX_EVENTS_KEPT
from andon.model.words import LIVE, WAITS_FOR_TIME, State

SUBMIT_WINDOW_MS = 600_000
"""A deleted task leaves a stub this long, so that a repeated submit cannot run it twice
(docs/rulings.md, R31)."""

SLOW_POLL_S = 5.0
"""The jittered poll behind every push; also the longest a timekeeper sleeps (docs/rulings.md,
R30)."""

NEAR_TIMER_MS = round(SLOW_POLL_S * 1000)
"""A timer that is set for this soon is hinted: no timekeeper may wake up by itself before it."""

JUMP_MS = 10_000
"""A third of the default lease: after a larger jump of the store's time, or a longer outage, lease
expiry waits for `LEASE_PATIENCE_MS` (docs/rulings.md, R19)."""

LEASE_PATIENCE_MS = 30_000
"""How long lease expiry waits after the store was away: one default lease (docs/rulings.md,
R19)."""

HISTORY_KEPT = 1_000
"""Moves of a task that its history keeps, the newest (docs/rulings.md, R12)."""

EVENTS_KEPT_MS = 7 * 86_400_000
"""How long the event log keeps an event (docs/rulings.md, R12); its number is bounded by
`?max_events=`."""

WORKER_SEEN_MS = 60_000
"""A worker that has not published itself for this long is not listed any more."""

CLAIM_KEPT_MS = 120_000
"""How long SQLite and PostgreSQL remember a claim's token: longer than any reply is waited for."""

PERMIT_MS = 60_000
"""After how long a permit of a claim whose process died lapses, where partitions share a limit."""

DAY_MS = 86_400_000
"""A day of the daily history."""

STATEMENT_CONSTANTS: Mapping[str, int | tuple[str, ...]] = {
    "submit_window_ms": SUBMIT_WINDOW_MS,
    "near_timer_ms": NEAR_TIMER_MS,
    "history_kept": HISTORY_KEPT,
    "events_in_status": MAX_EVENTS_KEPT,
    "worker_seen_ms": WORKER_SEEN_MS,
    "claim_kept_ms": CLAIM_KEPT_MS,
    "permit_ms": PERMIT_MS,
    "day_ms": DAY_MS,
    "live_states": tuple(state.value for state in State if state in LIVE),
    "waits_for_time": tuple(state.value for state in WAITS_FOR_TIME),
}
"""By the name that SQL and Lua use."""
