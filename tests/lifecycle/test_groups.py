"""Groups of which a record is kept: who is let in, sealed for good, gone when nobody is left
(docs/rulings.md, R41)."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle.groups import KEPT_MORE_MS, LET_IN_MS, is_whole, let_in, may_go, sealed
from andon.model.errors import GroupRefused
from andon.model.groups import GroupHappening, GroupRecord

NOW = 1_900_000_000_000
RECORD = GroupRecord(
    owner="ci", created_at=NOW, expires_at=NOW + 10 * KEPT_MORE_MS, open_until=NOW + LET_IN_MS
)


def test_the_first_member_makes_the_record() -> None:
    made = let_in("g", None, "ci", NOW + 5, NOW)
    assert made == GroupRecord(
        owner="ci",
        created_at=NOW,
        expires_at=NOW + 5 + KEPT_MORE_MS,
        open_until=NOW + LET_IN_MS,
    )


@pytest.mark.parametrize(
    ("changes", "owner", "expires_at", "later", "written"),
    [
        ({}, "ci", None, 0, {}),
        ({}, "ci", NOW + 1, LET_IN_MS // 2, {}),
        (
            {},
            "ci",
            None,
            LET_IN_MS // 2 + 1,
            {"open_until": NOW + LET_IN_MS // 2 + 1 + LET_IN_MS},
        ),
        ({}, "ci", NOW + 9 * KEPT_MORE_MS, 0, {}),
        ({}, "ci", NOW + 10 * KEPT_MORE_MS, 0, {"expires_at": NOW + 12 * KEPT_MORE_MS}),
    ],
    ids=["again", "half of the time", "later", "kept as long", "kept longer"],
)
def test_a_member_is_let_in_and_seldom_writes_the_record(
    changes: dict[str, Any], owner: str, expires_at: int | None, later: int, written: dict[str, Any]
) -> None:
    record = replace(RECORD, **changes)
    new = let_in("g", record, owner, expires_at, NOW + later)
    assert new == replace(record, **written)
    assert (new is record) is (not written)
    assert new.open_until >= NOW + later + LET_IN_MS // 2, "it has half a minute at least"


def test_another_owner_is_refused_and_named() -> None:
    with pytest.raises(GroupRefused, match="belongs to 'ci'") as refused:
        let_in("g", RECORD, "other", None, NOW)
    assert (refused.value.group, refused.value.owner, refused.value.sealed_at) == ("g", "ci", None)


def test_a_sealed_group_lets_nobody_in_and_keeps_its_first_moment() -> None:
    first = sealed(RECORD, NOW + 7)
    happening = GroupHappening(at=NOW + 7, what="sealed")
    assert first == replace(RECORD, sealed_at=NOW + 7, untold=(happening,))
    assert sealed(first, NOW + 9) is first
    with pytest.raises(GroupRefused, match="is sealed") as refused:
        let_in("g", first, "ci", None, NOW + 8)
    assert refused.value.sealed_at == NOW + 7


def test_a_sealed_group_is_whole_when_those_let_in_before_have_come() -> None:
    first = sealed(RECORD, NOW)
    assert not is_whole(RECORD, NOW + 2 * LET_IN_MS)
    assert not is_whole(first, NOW + LET_IN_MS - 1)
    assert is_whole(first, NOW + LET_IN_MS)


def test_a_record_may_go_when_its_time_is_over_and_nobody_is_on_the_way() -> None:
    assert not may_go(RECORD, RECORD.expires_at - 1)
    assert may_go(RECORD, RECORD.expires_at)
    assert not may_go(replace(RECORD, open_until=RECORD.expires_at + 1), RECORD.expires_at)
