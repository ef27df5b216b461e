"""What a server's refusal means: try again, ask another server, or tell the user what to do."""

from andon.model.errors import (
    AndonError,
    ConfigurationError,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
)

PASSING = frozenset(
    {
        "LOADING",  # reading its data after a start
        "BUSY",  # a script of another client runs too long
        "CLUSTERDOWN",
        "TRYAGAIN",  # a slot is on its way to another node
        "MASTERDOWN",
        "NOREPLICAS",  # min-replicas-to-write
        "OOM",
        "MISCONF",  # the disk is full, say: writes are refused until it can save again
        "READONLY",  # a primary that was made a replica: the new one must be found
        "UNKILLABLE",
    }
)
"""First words of errors that may pass by themselves, so that the request is tried again."""

_ADVICE = {
    "OOM": "it has used up its maxmemory; raise it, or delete what is not needed",
    "READONLY": "it is a replica; name the primary, or use redis+sentinel:// or redis+cluster://",
    "MISCONF": "it cannot save to disk and refuses writes; look at its log",
    "NOREPLICAS": "too few replicas are connected for its min-replicas-to-write",
    "CLUSTERDOWN": "part of the cluster is down",
    "LOADING": "it is still loading its data",
}

_REFUSED = {
    "NOAUTH": "it asks for a password; put it into the URL, as in redis://:PASSWORD@host/0",
    "WRONGPASS": "it refuses the user name or password of the URL",
    "NOPERM": "the user of the URL may not do what Andon needs; docs/stores/redis.md lists it",
    "DENIED": "it runs in protected mode; give it a password, or bind it to the loopback address",
}


def word_of(message: str) -> str:
    """The first word of an error reply, which names its kind."""
    return message.partition(" ")[0]


def unavailable(where: str, reason: str) -> StoreUnavailable:
    """The error to raise when trying again has not helped."""
    said = _ADVICE.get(word_of(reason))
    told = f"{said} ({reason})" if said else reason
    return StoreUnavailable(f"The Redis store at {where} cannot be used now: {told}.")


def refusal(where: str, message: str) -> AndonError:
    """The error for a reply that trying again cannot change."""
    word = word_of(message)
    lower = message.lower()
    if word in _REFUSED:
        return ConfigurationError(f"The Redis server at {where} refuses: {_REFUSED[word]}.")
    if "invalid password" in lower or "without any password configured" in lower:
        return ConfigurationError(
            f"The Redis server at {where} does not accept the password of the URL: {message}."
        )
    if "db index" in lower or "invalid db" in lower:
        return ConfigurationError(
            f"The Redis server at {where} has no such database; the path of the URL is its number "
            f"({message})."
        )
    if word == "ANDONNEWER":
        return StoreIncompatible(
            f"The Redis store at {where} is written by a newer release ({message[11:]}). "
            "Upgrade Andon here and restart."
        )
    if "wrongtype" in lower:
        return StoreIncompatible(
            f"At {where}, another application uses keys under our namespace. "
            "Choose another with ?namespace=NAME."
        )
    if "unknown command" in lower:
        return StoreIncompatible(
            f"The server at {where} lacks a command that Andon needs; "
            f"it must be Redis 6.2 or newer, or Valkey ({message})."
        )
    return StoreError(f"The Redis server at {where} refused: {message}.")
