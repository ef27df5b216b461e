"""A server's clock as a process knows it."""

import pytest

from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS
from andon.stores.kit import server_clock
from andon.stores.kit.server_clock import ServerClock

NOON = 1_790_000_000_000
"""What the server says at first."""


class OurTime:
    """This machine's clocks, which pass as a test says."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def time_ns(self) -> int:
        return (NOON + 3_600_000 + self.passed_ms) * 1_000_000  # an hour ahead of the server

    def monotonic(self) -> float:
        return 1_000 + self.passed_ms / 1000


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> OurTime:
    ours = OurTime()
    monkeypatch.setattr(server_clock, "time", ours)
    return ours


@pytest.mark.parametrize("follows", [False, True])
def test_it_is_the_time_told_and_what_passed_since(ours: OurTime, follows: bool) -> None:
    clock = ServerClock(follows=follows)
    clock.tell(NOON)
    ours.passed_ms += 250
    assert (clock.now(), clock.newest) == (NOON + 250, NOON)


@pytest.mark.parametrize("follows", [False, True])
def test_a_reply_that_was_long_on_its_way_does_not_set_it_back(
    ours: OurTime, follows: bool
) -> None:
    clock = ServerClock(follows=follows)
    clock.tell(NOON)
    ours.passed_ms += 500
    clock.tell(NOON + 100)
    assert clock.now() == NOON + 500


def test_a_server_that_was_set_back_is_followed_only_where_that_is_wanted(ours: OurTime) -> None:
    clocks = [ServerClock(follows=False), ServerClock(follows=True)]
    for clock in clocks:
        clock.tell(NOON)
        clock.now()
        clock.tell(NOON - 60_000)
        assert clock.now() == NOON, "time does not go back"
    ours.passed_ms += 70_000
    assert [clock.now() for clock in clocks] == [NOON + 70_000, NOON + 10_000]


def test_leases_wait_after_the_servers_time_jumped(ours: OurTime) -> None:
    clock = ServerClock()
    clock.tell(NOON)
    clock.tell(NOON + JUMP_MS)
    assert not clock.patience
    clock.tell(NOON + 3 * JUMP_MS)
    assert clock.patience == NOON + 3 * JUMP_MS + LEASE_PATIENCE_MS


def test_leases_wait_after_the_server_was_not_heard_of_for_long(ours: OurTime) -> None:
    clock = ServerClock()
    clock.tell(NOON)
    clock.silence()
    ours.passed_ms += JUMP_MS + 1
    clock.silence()
    clock.tell(NOON + ours.passed_ms)
    assert clock.patience == NOON + ours.passed_ms + LEASE_PATIENCE_MS


def test_a_server_that_nobody_asked_for_long_was_not_away(ours: OurTime) -> None:
    clock = ServerClock()
    clock.tell(NOON)
    ours.passed_ms += 100 * JUMP_MS
    clock.tell(NOON + ours.passed_ms)
    assert not clock.patience


def test_virtual_time_is_the_servers_and_has_no_jumps(ours: OurTime) -> None:
    times = iter([5_000, 4_000, 500_000])
    clock = ServerClock(lambda: next(times))
    clock.tell(NOON)
    assert [clock.now() for _ in range(3)] == [5_000, 5_000, 500_000]
    assert not clock.patience
