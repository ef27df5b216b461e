"""Opens the store: makes or finds the streams, and refuses those that Andon did not make or cannot
use."""

from typing import Any

from andon.model.errors import ConfigurationError, StoreIncompatible, StoreUnavailable
from andon.model.task import RECORD_VERSION
from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.location import Location
from andon.stores.nats.subjects import Subjects

SCHEMA = 3
"""3: the kind of a task is part of the subject of its pending record; 2: pending records stand in
lanes (see `subjects`). Neither 1 nor 2 was ever released."""
OLDEST = (2, 12, 2)
"""2.12.1 was the first to take schedules in atomic batches. It stops for good if a write comes
while a batch is read: it takes a lock twice, and a waiting writer between the two blocks it."""

NO_STREAM = 10059
_IN_USE = 10058
_NO_MESSAGE = 10037
_JETSTREAM_OFF = frozenset({10076, 10039})


def check_server(js: JetStream, location: Location) -> None:
    """Refuse a server that is too old."""
    version = js.client.connected_server_version
    if (version.major, version.minor, version.patch) < OLDEST:
        raise StoreIncompatible(
            f"The NATS server at {location.shown} is {version.major}.{version.minor}."
            f"{version.patch}; Andon needs 2.12.2 or newer. Upgrade the server."
        )


async def open_streams(js: JetStream, location: Location) -> tuple[int, dict[str, Any]]:
    """The number of partitions, and the metadata of partition 0; the streams are made if they do
    not exist."""
    check_server(js, location)
    first = await _info(js, location, 0)
    if first is None:
        count = location.partitions or 1
        # Partition 0 is made last: the store exists once that one does.
        for partition in reversed(range(count)):
            await _make(js, location, partition, count)
        first = await _info(js, location, 0)
        assert first is not None
    count = _check(first, location)
    for partition in range(1, count):
        found = await _info(js, location, partition)
        if found is None:
            raise StoreIncompatible(
                f"{location.shown} has no stream {Subjects(location.namespace, partition).stream}, "
                f"though the store was made with {count} partitions. Restore it from a backup."
            )
        _check(found, location)
        await _repair(js, location, partition, found)
    await _repair(js, location, 0, first)
    return count, first


async def _repair(js: JetStream, location: Location, partition: int, info: dict[str, Any]) -> None:
    """A stream that was emptied (purged) lacks what every read relies on."""
    if info["state"]["first_seq"] != 1:
        await begin(js, Subjects(location.namespace, partition))


async def begin(js: JetStream, subjects: Subjects) -> bool:
    """Write the message that is always there, if it is missing. Returns whether it was."""
    found = await js.api(f"STREAM.MSG.GET.{subjects.stream}", {"last_by_subj": subjects.meta})
    if found.get("error", {}).get("err_code") != _NO_MESSAGE:
        return False
    await js.write(subjects.stream, [(subjects.meta, b"andon", None)])
    return True


def _check(info: dict[str, Any], location: Location) -> int:
    """The number of partitions that the stream was made with."""
    config = info["config"]
    metadata: dict[str, str] = config.get("metadata") or {}
    if "andon_schema" not in metadata:
        raise StoreIncompatible(
            f"{location.shown} has a stream {config['name']} that Andon did not make. Choose "
            "another namespace: ?namespace=NAME."
        )
    schema, writer = int(metadata["andon_schema"]), int(metadata["andon_min_writer"])
    if schema > SCHEMA or writer > RECORD_VERSION:
        raise StoreIncompatible(
            f"The stream {config['name']} at {location.shown} has schema {schema}, made by a newer "
            f"Andon; this one knows {SCHEMA}. Upgrade Andon."
        )
    if schema < SCHEMA:
        raise StoreIncompatible(
            f"The stream {config['name']} at {location.shown} has schema {schema}, which was never "
            f"released; this Andon knows {SCHEMA}. Choose another namespace: ?namespace=NAME."
        )
    count = int(metadata["andon_partitions"])
    if location.partitions not in (None, count):
        raise ConfigurationError(
            f"The store at {location.shown} was made with {count} partitions, and that cannot be "
            f"changed; leave partitions={location.partitions} out, or make another namespace."
        )
    if location.storage not in (None, config["storage"]):
        raise ConfigurationError(
            f"The store at {location.shown} is kept in {config['storage']}, and that cannot be "
            f"changed; leave storage={location.storage} out, or make another namespace."
        )
    replicas = config["num_replicas"]
    if location.replicas not in (None, replicas):
        raise ConfigurationError(
            f"The store at {location.shown} has {replicas} replicas, not {location.replicas}; "
            f"leave replicas out, or change it with: nats stream edit {config['name']} "
            f"--replicas {location.replicas}."
        )
    return count


async def _info(js: JetStream, location: Location, partition: int) -> dict[str, Any] | None:
    subjects = Subjects(location.namespace, partition)
    found = await js.api(f"STREAM.INFO.{subjects.stream}", opening=True)
    problem = found.get("error")
    if problem is None:
        return found
    if problem.get("err_code") == NO_STREAM:
        return None
    raise refused(problem, location)


def refused(problem: dict[str, Any], location: Location) -> Exception:
    """What an error of JetStream's API means."""
    if problem.get("err_code") in _JETSTREAM_OFF:
        return StoreIncompatible(
            f"JetStream is off at {location.shown}; start the server with -js, or enable "
            "JetStream for this account."
        )
    return StoreUnavailable(f"{location.shown}: {problem.get('description', problem)}.")


async def _make(js: JetStream, location: Location, partition: int, count: int) -> None:
    subjects = Subjects(location.namespace, partition)
    config: dict[str, Any] = {
        "name": subjects.stream,
        "subjects": [f"{subjects.root}>"],
        "retention": "limits",
        "max_msgs_per_subject": 1,
        "discard": "old",
        "storage": location.storage or "file",
        "num_replicas": location.replicas or 1,
        "allow_atomic": True,
        "allow_msg_schedules": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "duplicate_window": 100_000_000,
        "metadata": {
            "andon_schema": str(SCHEMA),
            "andon_min_writer": "1",
            "andon_partitions": str(count),
        },
    }
    made = await js.api(f"STREAM.CREATE.{subjects.stream}", config, opening=True)
    problem = made.get("error")
    if problem is not None and problem.get("err_code") != _IN_USE:
        raise refused(problem, location)
    await js.write(subjects.stream, [(subjects.meta, b"andon", None)])
