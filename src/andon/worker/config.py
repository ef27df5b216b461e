"""The settings of a worker."""

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from andon.contract.limits import MAX_PAYLOAD
from andon.lifecycle.admission import check_given
from andon.lifecycle.describing import check_worker_id
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.worker.environment import check_patterns
from andon.worker.presence import new_worker_id

if TYPE_CHECKING:
    from andon.signing import TrustedKeys


def processors() -> int:
    """How many processors this process may use: a container or `taskset` may leave it fewer than
    the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Settings of one worker. Raises `ConfigurationError` for values that cannot be.

    Example:
        from andon.worker.config import WorkerConfig

        config = WorkerConfig(queues=("mail",), concurrency=20, shutdown_grace=10)
        assert config.lease == 30
    """

    queues: tuple[
        str, ...
    ] = ()  #: queues to claim from; none named: every queue known, and its types' own
    strict: bool = False  #: ask queues in the order named instead of by weight
    concurrency: int = 100  #: runs at once
    per_type: int | None = None  #: runs at once of a type that sets no limit itself
    lease: float = 30.0
    """Seconds a claim holds at the most: less if a registered type has a shorter `lease`. Renewals
    hold for the task's own."""
    shutdown_grace: float | None = None  #: seconds; None: as each task's policy says
    max_payload: int = MAX_PAYLOAD
    """Bytes a result may take. Arguments with results in them may take 64 times that."""
    app: str = ""  #: module:attribute of the application, for handlers in child processes
    children: int = dataclasses.field(default_factory=processors)
    """Runs at once in child processes, of all types with `isolation="process"` together; by default
    as many as there are processors that this process may use."""
    idle_children: int | None = None
    """Child processes kept while they have nothing to do; None: as many as may run at once."""
    pass_env: tuple[str, ...] = ()
    """Further environment variables for every command, beside `environment.COMMANDS_GET`; a `*` at
    the end stands for any ending. Andon's own reach commands and child processes only if they are
    named in full."""
    trusted_keys: "TrustedKeys | None" = None
    """Run only tasks signed with one of these; None: no signature is asked for."""
    id: str = dataclasses.field(default_factory=new_worker_id)  #: unique in the fleet

    def __post_init__(self) -> None:
        at_least = {
            "concurrency": 1,
            "per_type": 1,
            "max_payload": 1,
            "children": 1,
            "idle_children": 0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigurationError(f"Worker: {name} must be {least} or more, got {value}.")
        if not 0 < self.lease < float("inf"):
            raise ConfigurationError(f"Worker: lease must be more than 0 s, got {self.lease}.")
        if self.shutdown_grace is not None and not self.shutdown_grace >= 0:
            raise ConfigurationError("Worker: shutdown_grace must not be negative.")
        try:
            check_worker_id(self.id)
            for queue in self.queues:
                check_given(queue, field="queues")
        except InvalidSubmission as error:
            raise ConfigurationError(f"Worker: {error}") from error
        if len(set(self.queues)) != len(self.queues):
            raise ConfigurationError("Worker: a queue is named twice.")
        check_patterns(self.pass_env, where="Worker")
