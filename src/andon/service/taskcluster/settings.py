"""The settings of the Taskcluster face. Sizes are bytes, durations seconds."""

import msgspec

from andon.model.errors import ConfigurationError
from andon.model.policy import DAY
from andon.service.taskcluster.messages.configuration import MessageSettings

MIB = 1024 * 1024
_LONGEST = 86_400.0


class TaskclusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the face."""

    claim_timeout: float = 1_200.0  #: until a run that is not reclaimed counts as lost
    claim_wait: float = 20.0  #: longest wait of a claimWork that finds nothing
    one_claim_per_worker: bool = False
    """Whether a claimWork is answered with what the last one of that worker got, if nothing has
    been heard of that: its answer was lost. Only right where a worker asks for no more before it
    has begun with what it has."""
    max_deadline: float = 5 * DAY  #: from a task's creation to its deadline
    max_document: int = 960 * 1024
    """Of one task. The default leaves room for the rest of the record in the one message of 1 MiB
    that a NATS server takes unless told otherwise; other stores take more."""
    max_body: int = 10 * MIB  #: of one request
    max_headers: int = 64 * 1024
    """Request line and headers: the certificate of a task with many scopes is among them."""

    messages: MessageSettings = MessageSettings()  #: where messages are delivered

    def check(self) -> None:
        """Raise `ConfigurationError` for a setting that cannot be."""
        if not 1 <= self.claim_timeout <= _LONGEST:
            raise ConfigurationError("The claim timeout is 1 s to a day.")
        if not 0 <= self.claim_wait <= _LONGEST:
            raise ConfigurationError("claimWork waits 0 s to a day.")
        if not 0 < self.max_deadline <= 10 * 365 * DAY:
            raise ConfigurationError("A task's deadline is at most ten years ahead.")
        for name in ("max_document", "max_body", "max_headers"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1.")
