"""Waiting awake: only where it was measured to be quicker, and never for long."""

import socket

from andon.stores.kit.spinning import CHOSEN, CLOSELY_S, MOST_CHOSEN, TRIED, Spinner, look_at

US = 1e-6

LONGEST_S = 150 * US


class Caller:
    """Somebody who sends one request after another, in virtual time (seconds)."""

    def __init__(self, *, asleep: float, awake: float, works: float = 0.0) -> None:
        self.now = 1.0
        self.asleep = asleep  #: how long an answer takes, waited for asleep
        self.awake_s = awake  #: the same awake
        self.works = works  #: how long the loop works meanwhile
        self.worked = 0.0
        self.looks = 0
        self.longest_look = 0.0
        self._there_at = 0.0
        self.spinner = Spinner(
            self._look, LONGEST_S, clock=lambda: self.now, worked=lambda: self.worked
        )

    def _look(self) -> bool:
        self.looks += 1
        self.now += US
        return self.now >= self._there_at

    def send(self, count: int, *, apart: float = 20 * US) -> int:
        """That many requests; how many of them were waited for awake."""
        before, looked = self.looks, 0
        for _ in range(count):
            self.now += apart
            sent, before = self.now, self.looks
            self._there_at = sent + self.awake_s
            self.spinner.wait()
            looked += self.looks > before
            self.longest_look = max(self.longest_look, self.now - sent)
            answer = self.awake_s if self.looks > before else self.asleep
            self.now = max(self.now, sent + answer)
            self.worked += self.works
            if self.spinner.watches:
                self.spinner.answered()
        return looked


def test_answers_are_waited_for_awake_where_that_is_quicker() -> None:
    caller = Caller(asleep=100 * US, awake=60 * US, works=20 * US)
    assert caller.send(10_000) > 9_500


def test_answers_are_waited_for_asleep_where_that_is_quicker() -> None:
    caller = Caller(asleep=40 * US, awake=60 * US, works=20 * US)
    assert caller.send(10_000) <= 10_000 * TRIED / CHOSEN + TRIED


def test_a_server_that_is_far_away_is_waited_for_asleep_and_looked_for_only_for_a_moment() -> None:
    caller = Caller(asleep=600 * US, awake=600 * US, works=20 * US)
    assert caller.send(10_000) <= 10_000 * TRIED / CHOSEN + TRIED
    assert caller.longest_look <= LONGEST_S + 2 * US


def test_answers_that_come_too_late_are_waited_for_asleep_though_they_came_sooner() -> None:
    caller = Caller(asleep=600 * US, awake=500 * US, works=20 * US)
    assert caller.send(10_000) <= 10_000 * TRIED / CHOSEN + TRIED


def test_a_loop_that_has_other_work_never_waits_awake() -> None:
    caller = Caller(asleep=100 * US, awake=60 * US, works=95 * US)
    assert caller.send(10_000) == 0


def test_requests_that_come_apart_are_waited_for_asleep() -> None:
    caller = Caller(asleep=100 * US, awake=60 * US)
    assert caller.send(5_000, apart=CLOSELY_S + 10 * US) == 0


def test_the_choice_is_made_anew_when_things_change() -> None:
    caller = Caller(asleep=100 * US, awake=60 * US)
    assert caller.send(2_000) > 1_900
    caller.works = 100 * US
    assert caller.send(2 * CHOSEN) <= CHOSEN + TRIED
    assert caller.send(2_000) == 0
    caller.works = 0.0
    assert caller.send(3_000) > 2_000
    caller.asleep = 40 * US
    assert caller.send(20_000) <= 2 * CHOSEN
    caller.asleep = 100 * US
    caller.send(MOST_CHOSEN)
    assert caller.send(2_000) > 1_900


def test_a_socket_is_looked_at_without_being_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        look = look_at(ours.fileno())
        assert look is not None
        assert not look()
        theirs.send(b"+PONG")
        assert look()
        assert ours.recv(100) == b"+PONG"
        assert not look()
        theirs.close()
        assert look()
