"""The order in which a worker claims from its queues."""

import random
from collections.abc import Iterable

from andon.model.fleet import QueueConfig


class QueueOrder:
    """Weighted order by default: each claim asks the queues in a random order in which a queue of
    weight 3 comes first three times as often as one of weight 1, so that none starves. Strict:
    always as named, and a later queue gets what an earlier one leaves.
    """

    def __init__(
        self, names: Iterable[str], *, own: Iterable[str] = (), strict: bool, rng: random.Random
    ) -> None:
        """No names: every queue known and the worker's `own`, which its types go to; with
        `strict` the heaviest first."""
        self._named = tuple(names)
        self._own = frozenset(own)
        self._strict = strict
        self._rng = rng
        self._weights: dict[str, int] = {}
        self.names = self._named
        self.shortest_interval: float | None = None
        """Seconds between claims of the fastest rate-limited queue; None if none is limited."""

    def take_in(self, own: Iterable[str]) -> None:
        """Set the worker's own queues, from the next refresh on."""
        self._own = frozenset(own)

    def refresh(self, known: Iterable[QueueConfig]) -> bool:
        """Follow the configuration; True if the set of queues changed."""
        configs = {config.name: config for config in known}
        names = self._named
        if not names:
            for name in self._own - configs.keys():  # nothing was submitted to it yet
                configs[name] = QueueConfig(name=name)
            heaviest = sorted(configs.values(), key=lambda config: (-config.weight, config.name))
            names = tuple(config.name for config in heaviest)
        mine = [configs[name] for name in names if name in configs]
        self._weights = {config.name: max(config.weight, 1) for config in mine}
        rates = [config.rate_limit for config in mine if config.rate_limit and not config.paused]
        self.shortest_interval = 1 / max(rates) if rates else None
        changed = set(names) != set(self.names)
        self.names = names
        return changed

    def next(self) -> tuple[str, ...]:
        """The order for the next claim."""
        names = self.names
        if self._strict or len(names) < 2:
            return names
        # Efraimidis and Spirakis: sorting by u^(1/w) draws without replacement by weight.
        rng, weights = self._rng, self._weights
        draws = {name: rng.random() ** (1 / weights.get(name, 1)) for name in names}
        return tuple(sorted(names, key=draws.__getitem__, reverse=True))
