"""Moments as people write them: `now`, `+5m`, ISO 8601. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from andon.model.durations import seconds_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class When:
    """A point in time: absolute in ms UTC, or seconds from now by the store's clock."""

    at: int | None = None
    after: float = 0.0

    def on(self, now: int) -> int:
        """The point in ms UTC."""
        return self.at if self.at is not None else now + round(self.after * 1000)


def when_of(text: str) -> When:
    """`+5m`, `now` or ISO 8601 (UTC where no zone is given). Raises `ValueError`."""
    if text == "now":
        return When()
    if text.startswith("+"):
        return When(after=seconds_of(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; write ISO 8601 (2030-01-31T12:00Z), or +5m for five minutes "
            "from now."
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return When(at=round((moment - _EPOCH).total_seconds() * 1000))
