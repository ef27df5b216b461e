"""Stream recovery: finds that the streams are not those this process opened.

They may be gone with the memory of their server, deleted and made again, or emptied. The check runs
after an operation failed. Streams in memory are made again, as a server promises nothing for them.
A stream of files that is missing was lost or deleted, and is left to the operator, who may have to
restore it.
"""

import logging
from typing import Any

from msgspec.structs import replace

from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.location import Location
from andon.stores.nats.opening import NO_STREAM, begin, open_streams
from andon.stores.nats.subjects import Subjects

log = logging.getLogger("andon.nats")


class StreamRecovery:
    """The streams as they were opened; `info` is the answer for that of partition 0."""

    def __init__(self, location: Location, partitions: int, info: dict[str, Any]) -> None:
        config = info["config"]
        self._location = replace(
            location,
            partitions=partitions,
            storage=config["storage"],
            replicas=config["num_replicas"],
        )
        self._created = info["created"]
        self._is_logged = False  # whether a missing stream was logged

    async def check(self, js: JetStream) -> dict[str, Any] | None:
        """The metadata of partition 0 now, if the streams are others or were emptied; None if they
        are as they were, or do not exist."""
        location = self._location
        subjects = Subjects(location.namespace, 0)
        info = await js.api(f"STREAM.INFO.{subjects.stream}")
        if "error" in info:
            if info["error"].get("err_code") != NO_STREAM:
                return None
            if location.storage != "memory":
                self._log_missing(subjects.stream)
                return None
            _, info = await open_streams(js, location)
        emptied = [
            await begin(js, Subjects(location.namespace, partition))
            for partition in range(location.partitions or 1)
        ]
        self._is_logged = False
        if info["created"] == self._created and not any(emptied):
            return None
        self._created = info["created"]
        return info

    def _log_missing(self, stream: str) -> None:
        if not self._is_logged:
            log.error(
                "%s has no stream %s any more: restore it from a backup, or restart a process of "
                "Andon, which makes it anew.",
                self._location.shown,
                stream,
            )
        self._is_logged = True
