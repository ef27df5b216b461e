"""Flows: how far they are, what they look like, what a rerun takes, and results as arguments."""

from typing import Any

import msgspec
import pytest

from andon.lifecycle.flows import FlowMember, circle_in, counted, to_rerun, tree
from andon.lifecycle.placeholders import NotFillable, filled, many, one
from andon.model.words import State
from andon.worker.fitting import any_of, misfit

S = State


def member(task_id: str, state: State = S.COMPLETED, *after: str, **fields: Any) -> FlowMember:
    known: dict[str, Any] = {
        "name": task_id.rstrip("0123456789"),
        "version": 0,
        "queue": "default",
        "reason": None,
        "progress": 0,
        "error": None,
        "began_at": 10,
        "ended_at": 20 if state is S.COMPLETED else None,
        "rerun": False,
    }
    return FlowMember(id=task_id, state=state, dependencies=after, **{**known, **fields})


def test_progress_counts_what_is_gone_as_completed() -> None:
    progress = counted([S.COMPLETED, S.FAILED, S.ACTIVE, S.BLOCKED], total=10)
    assert (progress.total, progress.ended, progress.completed, progress.failed) == (10, 8, 7, 1)
    assert progress.percent == 80
    assert list(progress.states) == ["blocked", "active", "completed", "failed"]


def test_percent_is_100_only_when_all_has_ended() -> None:
    states = [S.COMPLETED] * 999 + [S.ACTIVE]
    assert counted(states).percent == 99
    assert counted(states[:-1]).percent == 100


def test_a_node_tells_how_many_each_of_its_tasks_needs() -> None:
    pages = [member(f"page{n}") for n in range(3)]
    ids = [page.id for page in pages]
    some, other, whole = (
        member(name, S.BLOCKED, *ids, needs=needs)
        for name, needs in (("join1", 2), ("join2", 1), ("all", None))
    )
    needs = {node.name: node.needs for node in tree([*pages, some, whole])}
    assert needs == {"page": None, "join": (2, 3), "all": None}
    assert tree([*pages, some, other])[-1].needs is None, "they differ"


def test_tasks_that_are_alike_are_one_node_and_a_chain_of_one_type_too() -> None:
    members = [
        member("close", S.BLOCKED, *(f"parse{n}" for n in range(3)), "step2"),
        *(member(f"parse{n}", S.PENDING, f"fetch{n}") for n in range(3)),
        *(member(f"fetch{n}") for n in range(3)),
        member("step2", S.FAILED, "step1"),
        member("step1", S.COMPLETED, "step0"),
        member("step0", S.COMPLETED, "elsewhere"),
    ]
    nodes = {node.name: node for node in tree(members)}
    order = list(nodes)
    after = {name: {order[place] for place in node.after} for name, node in nodes.items()}
    assert after == {"fetch": set(), "parse": {"fetch"}, "step": set(), "close": {"parse", "step"}}
    assert {name: node.count for name, node in nodes.items()} == {
        "fetch": 3,
        "parse": 3,
        "step": 3,
        "close": 1,
    }
    assert [failure.id for failure in nodes["step"].stuck] == ["step2"]


def test_a_tree_names_few_of_many() -> None:
    [node] = tree([member(f"fetch{n}", S.FAILED) for n in range(1_000)])
    assert (node.count, len(node.ids), len(node.stuck)) == (1_000, 10, 10)


@pytest.mark.parametrize(
    ("members", "taken"),
    [
        ([member("a"), member("b", S.COMPLETED, "a")], []),
        (
            [member("c", S.UNREACHABLE, "b"), member("b", S.FAILED, "a"), member("a")],
            ["b", "c"],
        ),
        ([member("a", S.FAILED), member("b", S.COMPLETED, "a")], ["a", "b"]),
        ([member("a", S.CANCELLED), member("b", S.ACTIVE, "a")], ["a"]),
        ([member("a", S.PENDING), member("b", S.UNREACHABLE, "a")], ["b"]),
        ([member("a", S.PENDING, rerun=True), member("b", S.COMPLETED, "a")], ["b"]),
        (
            [member("a", rerun=True, ended_at=30), member("b", S.COMPLETED, "a", began_at=25)],
            ["b"],
        ),
        ([member("a", rerun=True, ended_at=20), member("b", S.COMPLETED, "a", began_at=25)], []),
        ([member("a", S.UNKNOWN), member("b", S.UNREACHABLE, "a")], ["b"]),
    ],
)
def test_a_rerun_takes_what_did_not_complete_and_what_follows_it(
    members: list[FlowMember], taken: list[str]
) -> None:
    assert to_rerun(members, failed_only=True) == taken


def test_a_rerun_of_all_takes_what_has_ended_parents_first() -> None:
    members = [member("b", S.COMPLETED, "a"), member("a"), member("c", S.ACTIVE)]
    assert to_rerun(members, failed_only=False) == ["a", "b"]


def test_a_circle_is_found_and_named() -> None:
    assert circle_in({"a": ["b"], "b": ["a"], "c": []}) in (["a", "b", "a"], ["b", "a", "b"])
    assert circle_in({"a": ["b"], "b": ["x"]}) == []


RESULTS = {"p": b'{"n": 1}', "q": b"2", "r": None}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (one("p"), {"n": 1}),
        (one("r"), None),
        (many(0, 3), [{"n": 1}, 2, None]),
        (many(1, 1), [2]),
        (many(0, 0), []),
        ({"deep": [one("q"), 5]}, {"deep": [2, 5]}),
        (one("stranger"), {"$result": "stranger"}),
        ({"$result": "p", "and": 1}, {"$result": "p", "and": 1}),
        (many(2, 9), {"$results": [2, 9]}),
        ({"$results": [-1, 1]}, {"$results": [-1, 1]}),
        ({"$results": "p"}, {"$results": "p"}),
    ],
)
def test_results_are_filled_in_where_they_are_named(given: Any, found: Any) -> None:
    args = msgspec.json.encode({"a": given, "b": one("p")})
    done = msgspec.json.decode(
        filled(args, ["a", "absent"], ["p", "q", "r"], RESULTS, max_payload=99)
    )
    assert done == {"a": found, "b": {"$result": "p"}}, "b is not named, so it stands as it is"


def test_a_result_that_was_deleted_cannot_be_filled_in() -> None:
    with pytest.raises(NotFillable, match="'q', which was deleted"):
        filled(b'{"a": {"$result": "q"}}', ["a"], ["p", "q"], {"p": b"1"}, max_payload=99)
    with pytest.raises(NotFillable, match="named arguments"):
        filled(b"[1]", ["a"], [], {}, max_payload=99)


DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    ("args", "result", "said"),
    [
        (b'{"a": {"$results": [0, 1]}}', b'"' + b"x" * 2_048 + b'"', "more than 2,048 bytes"),
        (b'{"a": [%s]}' % b",".join([b'{"$result":"p"}'] * 9), b"1" * 300, "more than 2,048 bytes"),
        (b'{"a": [{"$result": "p"}, "%s"]}' % (b"x" * 2_038), b"[1, 2]", "more than 2,048 bytes"),
        (b'{"a": %s}' % (b"[" * 900 + b"]" * 900), b"1", "nested"),
        (b'{"a": %s}' % DEEP.replace(b"[]", b'[{"$result": "p"}]'), DEEP, "nested more than 500"),
        (b'{"a": {"$result": "p"}}', b'1}, "b": {"more": 1', "result of 'p' is not JSON"),
        (b'{"a": {"$result": "p"}}', b"\xff", "result of 'p' is not JSON"),
        (b'{"a": "\xff"}', b"1", "named arguments"),
    ],
    ids=["a result", "one often", "both", "args too deep", "together", "forged", "utf8", "args"],
)
def test_what_is_too_large_too_deep_or_no_json_is_not_filled_in(
    args: bytes, result: bytes, said: str
) -> None:
    with pytest.raises(NotFillable, match=said):
        filled(args, ["a"], ["p"], {"p": result}, max_payload=32)


def test_what_is_nested_beyond_the_stack_is_not_filled_in() -> None:
    args = b'{"a": ' + b'{"b":' * 50_000 + b"1" + b"}" * 50_000 + b"}"
    with pytest.raises(NotFillable, match="nested too deeply"):
        filled(args, ["a"], [], {}, max_payload=len(args))


class Row(msgspec.Struct):
    cells: list[int]


class Line(msgspec.Struct, array_like=True):
    cells: list[int]


@pytest.mark.parametrize(
    ("given", "wanted", "is_misfit"),
    [
        (int, int, False),
        (int, float, False),
        (float, int, True),
        (bool, int, True),
        (int, int | None, False),
        (int | None, int, True),
        (str, bytes, False),
        (list[int], set[float], False),
        (list[str], list[int], True),
        (tuple[int, ...], list[int], False),
        (dict[str, int], dict[str, str], True),
        (dict[str, int], Row, False),
        (Row, list[int], True),
        (Line, list[int], False),
        (Any, int, False),
        (str, Any, False),
        (None, str, True),
        (list[any_of([int, str, int])], list[int], True),
        (list[any_of([])], list[int], False),
    ],
)
def test_annotations_that_cannot_meet_are_told(given: Any, wanted: Any, is_misfit: bool) -> None:
    assert misfit(given, wanted) is is_misfit
