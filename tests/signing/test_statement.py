"""What is signed: the published vectors, and that nothing can be altered without being seen."""

import base64
import hashlib
import itertools
import json
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from andon.engine.base import Submission
from andon.lifecycle.statements import parsed, statement
from andon.model.headers import SIGNATURE_HEADER

from .vectors import PAGE, SEEDS, signing_key, task_of, text

PUBLISHED: Any = json.loads(PAGE.read_text(encoding="utf-8"))
VECTORS: list[Any] = PUBLISHED["vectors"]
each_vector = pytest.mark.parametrize("vector", VECTORS, ids=[v["about"] for v in VECTORS])


# --- written from docs/signing.md alone: json, hashlib and an Ed25519 library, no code of Andon ---

TRACE = {"traceparent", "tracestate", "baggage", "andon-dependencies", "andon-signature"}


def net(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("utf-8")
    return str(len(raw)).encode("ascii") + b":" + raw + b","


def nets(values: list[str]) -> bytes:
    return net(b"".join(net(value) for value in values))


def needed(task: dict[str, Any]) -> str:
    requires = task.get("requires", "all-completed")
    return f"{requires}:{task['needs']}" if "needs" in task else requires


def by_the_page(task: dict[str, Any], not_after: int | None) -> bytes:
    once: list[str] = []
    for parent in task.get("dependencies", []):
        if parent not in once:
            once.append(parent)
    pairs: list[str] = []
    headers: dict[str, str] = task.get("headers", {})
    for name in sorted(headers, key=lambda name: name.encode("utf-8")):
        if name not in TRACE:
            pairs += [name, headers[name]]
    return b"".join(
        [
            net("andon-task-v1"),
            net(task["id"]),
            net(task["name"]),
            net(str(task.get("version", 0))),
            net(task.get("queue", "default")),
            net(task.get("args", "{}")),
            nets(once),
            net(needed(task)),
            net("1" if task.get("load_dependencies") else "0"),
            net(task.get("unique_key") or ""),
            net(task.get("key") or ""),
            net(task.get("group") or ""),
            nets(task.get("scopes", [])),
            nets(task.get("tags", [])),
            nets(pairs),
            net("" if not_after is None else str(not_after)),
        ]
    )


@each_vector
def test_who_reads_the_page_only_makes_the_published_signatures(vector: Any) -> None:
    key = PUBLISHED["keys"][vector["key"]]
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key["seed"]))
    public = private.public_key().public_bytes_raw()
    assert public.hex() == key["public"]
    assert hashlib.sha256(public).hexdigest()[:16] == key["id"]
    made = by_the_page(vector["task"], vector["not_after"])
    assert made.hex() == vector["statement"]
    value = base64.urlsafe_b64encode(private.sign(made)).decode().rstrip("=")
    not_after = "" if vector["not_after"] is None else str(vector["not_after"])
    assert vector[SIGNATURE_HEADER] == f"v1.{key['id']}.{not_after}.{value}"


@each_vector
def test_who_reads_the_page_only_checks_the_published_signatures(vector: Any) -> None:
    version, key_id, not_after, value = vector[SIGNATURE_HEADER].split(".")
    [key] = [key for key in PUBLISHED["keys"].values() if key["id"] == key_id]
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key["public"]))
    signature = base64.urlsafe_b64decode(value + "==")
    signed = by_the_page(vector["task"], int(not_after) if not_after else None)
    assert version == "v1"
    public.verify(signature, signed)
    with pytest.raises(InvalidSignature):
        public.verify(signature, signed + b" ")


# --- Andon's own ---


def test_what_is_published_is_what_andon_signs() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(), "python -m tests.signing.vectors"


@each_vector
def test_andons_statement_is_that_of_the_page(vector: Any) -> None:
    made = statement(task_of(vector["task"]), vector["not_after"])
    assert made.hex() == vector["statement"]


def test_no_queue_is_the_default_queue() -> None:
    without = task_of({"id": "a", "name": "x"})
    named = task_of({"id": "a", "name": "x", "queue": "default"})
    assert statement(without, None) == statement(named, None)


def test_how_many_dependencies_are_needed_is_said_with_how_they_must_end() -> None:
    fields = {"id": "a", "name": "x", "dependencies": ["b", "c"], "needs": 1}
    assert statement(task_of(fields), None) == by_the_page(fields, None)


OTHERWISE: dict[str, Any] = {
    "id": "other",
    "name": "other",
    "version": 3,
    "queue": "other",
    "args": '{"order": 4711, "amount": 12.5}',
    "dependencies": ["order:4710", "order:4709"],
    "requires": "all-completed",
    "needs": 1,
    "load_dependencies": False,
    "unique_key": None,
    "key": "customer-8",
    "group": "june",
    "scopes": ["pay:eu"],
    "tags": ["b2b", "urgent"],
    "headers": {"tenant": "acme", "Locale": "de-DE", "é": "1"},
}


@pytest.mark.parametrize("field", OTHERWISE)
def test_each_signed_field_changes_the_statement(field: str) -> None:
    fields = VECTORS[1]["task"]
    assert fields.get(field) != OTHERWISE[field]
    altered = task_of({**fields, field: OTHERWISE[field]})
    assert statement(altered, None) != statement(task_of(fields), None)


UNSIGNED: dict[str, Any] = {
    "priority": 3,
    "delay": 5.0,
    "run_at": 2_000_000_000_000,
    "deadline_in": 5.0,
    "deadline": 2_000_000_000_000,
    "expires_at": 2_000_000_000_000,
    "options": {"max_retries": 9},
    "supersede_active": True,
    "max_delay": 5.0,
    "profile": "taskcluster",
    "group_owner": "ci",
}


def test_every_field_of_a_submission_is_signed_or_said_not_to_be() -> None:
    # `on_held` only says that dependencies are not the submitter's; see tests/lifecycle.
    assert set(Submission.__struct_fields__) == {*OTHERWISE, *UNSIGNED, "invalid", "on_held"}


@pytest.mark.parametrize("field", UNSIGNED)
def test_when_and_how_often_is_not_signed(field: str) -> None:
    fields = VECTORS[1]["task"]
    altered = task_of({**fields, field: UNSIGNED[field]})
    assert statement(altered, None) == statement(task_of(fields), None)


TEXTS = st.text(alphabet="a1:,", max_size=4)
TASKS = st.fixed_dictionaries(
    {
        "id": st.just("t"),
        "name": st.sampled_from(["a", "1"]),
        "args": TEXTS,
        "dependencies": st.lists(TEXTS, max_size=2, unique=True),
        "key": TEXTS,
        "group": TEXTS,
        "scopes": st.lists(TEXTS, max_size=2),
        "tags": st.lists(TEXTS, max_size=2),
        "headers": st.dictionaries(TEXTS, TEXTS, max_size=2),
    }
)


@given(TASKS, TASKS)
def test_two_tasks_have_one_statement_only_if_they_are_alike(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    alike = statement(task_of(one), None) == statement(task_of(other), None)
    assert alike == (one == other)
    assert statement(task_of(one), None) == by_the_page(one, None)


def test_a_header_is_read_only_as_it_is_written() -> None:
    header = signing_key("first").sign(task_of({"id": "a", "name": "x"}), 0)
    signature = parsed(header)
    assert signature is not None
    assert signature.header == header
    parts = header.split(".")
    for place, wrong in itertools.product(range(4), ("", "v2", "00", "-1", parts[3][:-1], "é")):
        if (place, wrong) != (2, ""):
            assert parsed(".".join([*parts[:place], wrong, *parts[place + 1 :]])) is None
    assert parsed(f"{header}\n") is None


def test_the_two_published_keys_differ() -> None:
    assert len({key["id"] for key in PUBLISHED["keys"].values()}) == len(SEEDS)
