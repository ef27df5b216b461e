"""When alert rules fire, are told again, and are cleared: minute after minute, purely."""

from typing import Any

import msgspec
import pytest

from andon.lifecycle.alerts.judging import MOST_NAMED, MOST_SUBJECTS, SHOWN_MS, judged
from andon.lifecycle.alerts.seeing import (
    LETTERS_EVERY_MS,
    Readings,
    ScheduleReading,
    needs,
)
from andon.lifecycle.alerts.telling import delivery_id, document_of, is_sealed, seal_of, text_of
from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import ALERTS_QUEUE, AlertBook, AlertState, Rule
from andon.model.fleet import QueueStats, WorkerInfo
from andon.model.letters import LetterGroup, LetterGroups
from andon.model.minutes import MinuteCounts, MinuteHistory, MinutePoint, MinuteSeries
from andon.model.recurrence import Recurrence
from andon.model.task import Definition, Schedule

START = 1_000_000 * MINUTE_MS


class Look:
    """Looks at one or more rules, a minute apart."""

    def __init__(self, **rules: Rule) -> None:
        self.book = AlertBook(
            rules={
                name: msgspec.structs.replace(rule, targets=rule.targets or ("ops",))
                for name, rule in rules.items()
            }
        )
        self.state = AlertState()
        self.now = START + 9_000

    def __call__(self, minutes: int = 1, **read: Any) -> list[tuple[str, list[str]]]:
        """What is told after a minute in which this is read: what happened, and to which."""
        self.now += minutes * MINUTE_MS
        self.state = judged(self.book, self.state, Readings(now=self.now, **read))
        told, self.state = self.state.owed, msgspec.structs.replace(self.state, owed=())
        self.told = told
        return [(one.happened, [name for name, _ in one.subjects]) for one in told]

    def ages(self, **seconds: float) -> list[tuple[str, list[str]]]:
        """The same where the oldest tasks of queues wait so long."""
        now = self.now + MINUTE_MS
        stats = tuple(
            QueueStats(queue=name, counts={}, oldest_pending_at=round(now - age * 1000))
            for name, age in seconds.items()
        )
        return self(stats=stats)

    def letters(self, minutes: int = 1, **counts: int) -> list[tuple[str, list[str]]]:
        stats = tuple(QueueStats(queue=q, counts={}, dead_letters=n) for q, n in counts.items())
        return self(minutes, stats=stats)


OLD = Rule(when="oldest-age", above=600)


def test_a_rule_fires_once_is_silent_while_it_holds_and_is_cleared() -> None:
    look = Look(old=OLD)
    assert look.ages(a=599, b=1) == []
    assert look.ages(a=601, b=1) == [("firing", ["a"])]
    assert look.ages(a=700, b=1) == []
    assert look.ages(a=800, b=601) == [("firing", ["b"])]
    assert look.ages(b=650) == [("cleared", ["a"])]
    assert look.ages() == [("cleared", ["b"])]
    assert look.ages() == []


def test_what_happens_to_several_in_one_minute_is_one_notice_the_worst_first() -> None:
    look = Look(old=OLD)
    assert look.ages(a=700, b=900, c=800) == [("firing", ["b", "c", "a"])]
    assert look.told[0].subjects[0] == ("b", "the oldest task waits for 15m")


def test_a_condition_must_last_before_it_fires_and_before_it_is_cleared() -> None:
    look = Look(old=msgspec.structs.replace(OLD, lasting=120))
    assert look.ages(a=700) == []
    assert look.ages() == []  # it was over before it had lasted
    assert look.ages(a=700) == []
    assert look.ages(a=760) == []
    assert look.ages(a=820) == [("firing", ["a"])]
    assert look.ages() == []
    assert look.ages(a=700) == []  # it came back before it was cleared: nothing new
    assert look.ages() == []
    assert look.ages() == []
    assert look.ages() == [("cleared", ["a"])]


def test_a_rule_that_says_so_is_told_again_while_it_holds() -> None:
    look = Look(old=msgspec.structs.replace(OLD, repeat_every=180))
    assert look.ages(a=700) == [("firing", ["a"])]
    assert [look.ages(a=700) for _ in range(4)] == [[], [], [("still-firing", ["a"])], []]


def test_a_rule_that_becomes_another_begins_anew_and_a_removed_one_says_nothing() -> None:
    look = Look(old=OLD)
    look.ages(a=700)
    look.book = AlertBook(rules={"old": Rule(when="oldest-age", above=60, targets=("ops",))})
    assert look.ages(a=700) == [("firing", ["a"])]
    look.book = AlertBook()
    assert look.ages(a=700) == []
    assert look.state.rules == {}


def test_other_targets_do_not_make_it_fire_again() -> None:
    look = Look(old=OLD)
    look.ages(a=700)
    look.book = AlertBook(rules={"old": msgspec.structs.replace(OLD, targets=("other",))})
    assert look.ages(a=700) == []
    assert look.ages() == [("cleared", ["a"])]
    assert look.told[0].targets == ("other",)


def test_subjects_of_a_rule_are_bounded_and_the_rest_is_counted() -> None:
    look = Look(old=OLD)
    ages = {f"q{n:03}": 700.0 + n for n in range(MOST_SUBJECTS + 7)}
    [(_, names)] = look.ages(**ages)
    assert len(names) == MOST_NAMED
    assert look.told[0].more == MOST_SUBJECTS - MOST_NAMED + 7
    assert len(look.state.rules["old"].subjects) == MOST_SUBJECTS
    assert look.state.rules["old"].more == 7


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [("", ["a", "mail", "mail:x"]), ("mail", ["mail"]), ("mail*", ["mail", "mail:x"])],
)
def test_a_pattern_means_queues_by_name_or_by_how_they_begin(
    pattern: str, meant: list[str]
) -> None:
    look = Look(old=msgspec.structs.replace(OLD, queue=pattern))
    [(_, names)] = look.ages(**{"a": 700, "mail": 700, "mail:x": 700, ALERTS_QUEUE: 9_000})
    assert names == meant


def test_the_queue_of_alerts_is_watched_only_by_its_name() -> None:
    look = Look(old=msgspec.structs.replace(OLD, queue=ALERTS_QUEUE))
    assert look.ages(**{ALERTS_QUEUE: 700}) == [("firing", [ALERTS_QUEUE])]


def test_dead_letters_by_number() -> None:
    look = Look(many=Rule(when="dead-letters", above=10))
    assert look.letters(a=10) == []
    assert look.letters(a=11) == [("firing", ["a"])]
    assert look.letters(a=3) == [("cleared", ["a"])]


def test_dead_letters_by_growth_look_back_and_survive_a_purge() -> None:
    look = Look(more=Rule(when="dead-letters", growth=5, within=600))
    assert look.letters(a=100) == []  # there were so many before anybody looked
    assert look.letters(a=105) == []
    assert look.letters(a=106) == [("firing", ["a"])]
    assert look.letters(a=0) == [("cleared", ["a"])]
    assert [look.letters(a=n) for n in (2, 4, 6)] == [[], [], [("firing", ["a"])]]
    assert look.letters(minutes=11, a=6) == [("cleared", ["a"])]
    assert look.letters(minutes=11, a=60) == []  # nobody knows within what time these came


def minutes(now: int, missing: int = 0, **queues: tuple[int, int]) -> MinuteHistory:
    end = now // MINUTE_MS * MINUTE_MS
    return MinuteHistory(
        since=end - 5 * MINUTE_MS,
        until=end,
        missing=tuple(end - n * MINUTE_MS for n in range(1, missing + 1)),
        series=tuple(
            MinuteSeries(
                name,
                (MinutePoint(end - MINUTE_MS, MinuteCounts(finished=good, failed=bad), 60.0),),
            )
            for name, (good, bad) in queues.items()
        ),
        whole=True,
    )


def test_an_error_rate_asks_for_enough_runs_and_missing_minutes_change_nothing() -> None:
    rule = Rule(when="error-rate", above=0.1, within=300, min_runs=10)
    look = Look(rate=rule)
    assert look(minutes=1, **{}) == []

    def rate(**read: Any) -> list[tuple[str, list[str]]]:
        history = minutes(look.now + MINUTE_MS, **read)
        look.now += MINUTE_MS
        look.state = judged(look.book, look.state, Readings(now=look.now, minutes=history))
        told, look.state = look.state.owed, msgspec.structs.replace(look.state, owed=())
        return [(one.happened, [name for name, _ in one.subjects]) for one in told]

    assert rate(a=(0, 9), b=(90, 10)) == []
    assert rate(a=(8, 2), b=(90, 10)) == [("firing", ["a"])]
    assert rate(missing=5) == []
    assert look.state.rules["rate"].subjects["a"].fired
    assert rate(a=(10, 1)) == [("cleared", ["a"])]


def group(fingerprint: str, at: int, queue: str = "q") -> LetterGroup:
    return LetterGroup(
        fingerprint=fingerprint, pattern=f"Error {fingerprint}", count=1, newest="t",
        newest_at=at, oldest_at=at, names=("job",), queues=(queue,),
    )  # fmt: skip


def groups(*found: LetterGroup) -> LetterGroups:
    return LetterGroups(groups=found, looked=len(found), whole=True, cursor="")


def test_a_new_kind_of_error_is_told_once_and_what_was_there_before_never() -> None:
    look = Look(new=Rule(when="new-error"))
    at = look.now
    assert look(letters=groups(group("aa", at))) == []
    assert look(letters=groups(group("aa", look.now), group("bb", look.now))) == [
        ("firing", ["bb"])
    ]
    assert look(letters=groups(group("bb", look.now), group("cc", at - 600_000))) == []
    assert look() == []  # no look at dead letters this minute
    assert look(minutes=SHOWN_MS // MINUTE_MS, letters=groups()) == []  # and nothing is cleared
    assert look.state.rules["new"].subjects == {}
    assert look(letters=groups(group("bb", look.now))) == []


def test_a_new_kind_of_error_is_for_the_rules_of_its_queue_and_not_of_alerts_own() -> None:
    look = Look(all=Rule(when="new-error"), mail=Rule(when="new-error", queue="mail"))
    look(letters=groups())
    found = groups(group("aa", look.now, "q"), group("bb", look.now, ALERTS_QUEUE))
    assert look(letters=found) == [("firing", ["aa"])]
    assert look(letters=groups(group("cc", look.now, "mail"))) == [
        ("firing", ["cc"]),
        ("firing", ["cc"]),
    ]


def test_dead_letters_are_looked_at_when_their_number_changed_or_after_a_while() -> None:
    rules = [Rule(when="new-error")]
    look = Look(new=rules[0])
    stats = (QueueStats(queue="q", counts={}, dead_letters=1),)
    assert needs(rules, look.state, stats, look.now).letters
    look(stats=stats, letters=groups())
    assert not needs(rules, look.state, stats, look.now + MINUTE_MS).letters
    assert needs(rules, look.state, stats, look.now + LETTERS_EVERY_MS).letters
    assert needs(rules, look.state, (), look.now).letters
    assert needs([OLD], look.state, (), look.now) == (0, False, False, False)


def reading(
    name: str,
    *,
    after: int,
    fired: int,
    overlap: Any = "allow",
    due: int | None = None,
    **more: Any,
) -> ScheduleReading:
    schedule = Schedule(
        recurrence=Recurrence(every=60),
        template=Definition(id="", name="job", queue="q"),
        after=after,
        fired=fired,
        next_due=due,
        overlap=overlap,
        paused_at=more.pop("paused_at", None),
    )
    return ScheduleReading(name, schedule, **more)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"fired": 8}, []),
        ({"fired": 6}, ["nightly"]),
        ({"fired": 6, "overlap": "skip"}, []),
        ({"fired": 6, "paused_at": 5}, []),
        ({"fired": 6, "touched_at": START + 10 * MINUTE_MS}, []),
        ({"fired": 8, "due": START - 61_000}, ["nightly"]),
        ({"fired": 8, "due": START + 10 * MINUTE_MS}, []),
    ],
)
def test_an_occurrence_that_was_not_submitted_is_missed(
    second: dict[str, Any], told: list[str]
) -> None:
    look = Look(missed=Rule(when="missed-occurrence", late=60))
    assert look(schedules=(reading("nightly", after=START, fired=5),)) == []
    after = START + 3 * MINUTE_MS
    found = look(schedules=(reading("nightly", after=after, **second),))
    assert [name for _, names in found for name in names] == told


def worker(name: str, now: int) -> WorkerInfo:
    return WorkerInfo(id=name, seen_at=now)


def test_a_worker_that_fell_silent_is_lost_and_one_that_left_is_not() -> None:
    look = Look(lost=Rule(when="lost-worker"))
    all_of_them = tuple(worker(name, look.now) for name in "abc")
    assert look(workers=all_of_them) == []
    assert look(workers=all_of_them[:1], left=frozenset("b")) == [("firing", ["c"])]
    assert look(workers=all_of_them[:1]) == []


def test_after_a_gap_workers_get_one_look_to_be_heard_of_again() -> None:
    look = Look(lost=Rule(when="lost-worker"))
    look(workers=(worker("a", look.now), worker("b", look.now)))
    assert look(minutes=4, workers=()) == []
    assert look(workers=(worker("a", look.now),)) == [("firing", ["b"])]


def test_workers_lost_long_ago_are_no_news() -> None:
    look = Look(lost=Rule(when="lost-worker"))
    look(workers=(worker("a", look.now),))
    assert look(minutes=30, workers=()) == []
    assert look(workers=()) == []


def test_a_rule_without_targets_stands_on_the_page_and_owes_nothing() -> None:
    book = AlertBook(rules={"old": OLD})
    stats = (QueueStats(queue="a", counts={}, oldest_pending_at=START - 900_000),)
    state = judged(book, AlertState(), Readings(now=START, stats=stats))
    assert state.rules["old"].subjects["a"].fired
    assert state.owed == ()


def test_a_state_is_stored_and_read_as_it_was() -> None:
    look = Look(old=OLD, new=Rule(when="new-error"), lost=Rule(when="lost-worker"))
    look.ages(a=700)
    state = judged(look.book, look.state, Readings(now=look.now, letters=groups(), workers=()))
    encoded = msgspec.msgpack.encode(state)
    assert msgspec.msgpack.decode(encoded, type=AlertState) == state


def test_a_notice_is_told_in_words_and_sealed_for_its_target() -> None:
    look = Look(old=OLD)
    look.ages(a=700)
    (notice,) = look.told
    assert text_of(notice) == "🔴 Andon: old is firing\n• a: the oldest task waits for 11m 40s"
    document = document_of(notice, "alert-1")
    assert document["type"] == "alert.firing"
    assert document["subjects"] == [{"name": "a", "seen": "the oldest task waits for 11m 40s"}]
    seal = seal_of("key", notice, "ops")
    handed = msgspec.structs.replace(notice, targets=())
    assert is_sealed("key", handed, "ops", seal)
    assert not is_sealed("key", handed, "other", seal)
    assert not is_sealed("", handed, "ops", seal_of("", notice, "ops"))
    forged = msgspec.structs.replace(handed, rule="new")
    assert not is_sealed("key", forged, "ops", seal)
    assert delivery_id("key", notice, "ops") != delivery_id("key", notice, "other")
    assert len(delivery_id("key", notice, "ops")) <= 64
