"""The published test vectors: read, and made anew by `python -m tests.signing.vectors`."""

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from andon.engine.base import Submission
from andon.lifecycle.statements import parsed, statement
from andon.model.headers import SIGNATURE_HEADER
from andon.signing import SigningKey

PAGE = Path(__file__).parents[2] / "docs" / "signing-vectors.json"
SEEDS = {"first": bytes(range(32)), "second": bytes(range(32, 64))}
NOW = 1_900_000_000_000

Fields = dict[str, Any]

CASES: list[tuple[str, str, float | None, Fields]] = [
    ("the least there is", "first", None, {"id": "t-1", "name": "mail.send"}),
    (
        "everything there is",
        "first",
        3600.0,
        {
            "id": "order:4711",
            "name": "shop.charge",
            "version": 2,
            "queue": "payments/eu",
            "args": '{"order": 4711, "amount": 12.50}',
            "dependencies": ["order:4709", "order:4710"],
            "requires": "all-resolved",
            "load_dependencies": True,
            "unique_key": "charge:4711",
            "key": "customer-7",
            "group": "may",
            "scopes": ["pay:eu", "mail:send"],
            "tags": ["urgent", "b2b"],
            "headers": {"tenant": "acme", "Locale": "de-AT", "é": "1"},
        },
    ),
    (
        "bytes, not characters, are counted",
        "second",
        None,
        {"id": "t-2", "name": "say", "args": '["Grüße, 世界 🚦"]', "tags": ["ärger"]},
    ),
    (
        "the arguments are signed as they were written",
        "first",
        None,
        {"id": "t-3", "name": "sum", "args": '{ "b" : 1.0,\n "a" : 1e2 }'},
    ),
    (
        "a dependency named twice counts once",
        "first",
        None,
        {"id": "t-4", "name": "join", "dependencies": ["b", "a", "b"]},
    ),
    (
        "what looks like another field is none",
        "first",
        None,
        {"id": "t-5", "name": "x", "args": '"1:a,"', "key": "3:abc,", "headers": {"1:a,": "0:,"}},
    ),
    (
        "headers of traces are not signed",
        "first",
        None,
        {
            "id": "t-6",
            "name": "x",
            "headers": {"traceparent": "00-1", "tracestate": "a=b", "baggage": "c=d", "own": "yes"},
        },
    ),
]


def task_of(fields: Fields, **more: Any) -> Submission:
    """A submission of the fields of a vector."""
    given = {**fields, **more}
    given["args"] = given.get("args", "{}").encode()
    for name in ("dependencies", "scopes", "tags"):
        given[name] = tuple(given.get(name, ()))
    return Submission(**given)


def signing_key(name: str, *, valid_for: float | None = None) -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(SEEDS[name]), valid_for=valid_for)


def vectors() -> dict[str, Any]:
    """What is published."""
    keys = {
        name: {
            "id": signing_key(name).key_id,
            "seed": seed.hex(),
            "public": signing_key(name).public.public_bytes_raw().hex(),
        }
        for name, seed in SEEDS.items()
    }
    told: list[Fields] = []
    for about, key_name, valid_for, fields in CASES:
        task = task_of(fields)
        header = signing_key(key_name, valid_for=valid_for).sign(task, NOW)
        signature = parsed(header)
        assert signature is not None
        told.append(
            {
                "about": about,
                "key": key_name,
                "task": fields,
                "not_after": signature.not_after,
                "statement": statement(task, signature.not_after).hex(),
                SIGNATURE_HEADER: header,
            }
        )
    return {"keys": keys, "vectors": told}


def text() -> str:
    return json.dumps(vectors(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
