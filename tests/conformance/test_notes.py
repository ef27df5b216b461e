"""Notes: small values by name, written by compare and set."""

import asyncio

import pytest

from andon.contract.notes import Note, NoteName, NotePut, PutNote

from .kit import Kit

A = NoteName("group", "s", "a")
HALF = "\ud800"


def put(name: NoteName, value: bytes | None, expect: bytes | None = None) -> PutNote:
    return PutNote(name, value, expect)


async def test_a_note_is_written_once_and_read(kit: Kit) -> None:
    assert await kit.store.notes([A]) == [None]
    assert await kit.store.put_notes([put(A, b"1")]) == [NotePut.WRITTEN]
    assert await kit.store.put_notes([put(A, b"2")]) == [NotePut.OTHER]
    assert await kit.store.notes([A]) == [b"1"]


async def test_a_note_is_replaced_and_deleted_by_who_knows_what_it_is(kit: Kit) -> None:
    await kit.store.put_notes([put(A, b"1")])
    assert await kit.store.put_notes([put(A, b"3", b"2")]) == [NotePut.OTHER]
    assert await kit.store.put_notes([put(A, b"2", b"1")]) == [NotePut.WRITTEN]
    assert await kit.store.put_notes([put(A, None, b"1")]) == [NotePut.OTHER]
    assert await kit.store.notes([A]) == [b"2"]
    assert await kit.store.put_notes([put(A, None, b"2")]) == [NotePut.WRITTEN]
    assert await kit.store.notes([A]) == [None]
    assert await kit.store.list_notes("group", "s") == []
    assert await kit.store.put_notes([put(A, b"2", b"2")]) == [NotePut.OTHER]
    assert await kit.store.put_notes([put(A, b"4")]) == [NotePut.WRITTEN]
    assert await kit.store.notes([A]) == [b"4"]


async def test_to_delete_what_is_not_there_changes_nothing(kit: Kit) -> None:
    assert await kit.store.put_notes([put(A, None)]) == [NotePut.WRITTEN]
    assert await kit.store.notes([A]) == [None]


async def test_names_differ_by_kind_scope_and_key(kit: Kit) -> None:
    names = [
        NoteName("group", "", "a"),
        NoteName("group", "", "A"),
        NoteName("group", "a", "a"),
        NoteName("worker", "a", "a"),
        NoteName("worker", "prov/wt", "wg/w.1 \u00e9*>"),
    ]
    puts = [put(name, str(i).encode()) for i, name in enumerate(names)]
    assert await kit.store.put_notes(puts) == [NotePut.WRITTEN] * len(names)
    assert await kit.store.notes(names) == [str(i).encode() for i in range(len(names))]
    assert await kit.store.notes([names[3], A, names[0]]) == [b"3", None, b"0"]
    assert await kit.store.notes([]) == []
    assert await kit.store.put_notes([]) == []


async def test_notes_of_a_scope_come_in_pages_ordered_by_key(kit: Kit) -> None:
    keys = sorted(["b", "B", "a/b", "a", "ab", "a b", "\u00e9", "z9", "z10"], key=str.encode)
    await kit.store.put_notes([put(NoteName("w", "q", key), key.encode()) for key in keys])
    await kit.store.put_notes([put(NoteName("w", "q2", "c"), b"x"), put(A, b"x")])
    found: list[Note] = []
    while page := await kit.store.list_notes("w", "q", found[-1].key if found else "", 2):
        assert len(page) <= 2
        found += page
    assert found == [Note(key, key.encode()) for key in keys]


async def test_of_many_who_write_at_once_one_is_first(kit: Kit) -> None:
    for round_ in range(5):
        name = NoteName("group", "", f"race{round_}")
        other = await kit.again()
        done = await asyncio.gather(
            *(
                store.put_notes([put(name, f"{number}".encode())])
                for number, store in enumerate([kit.store, other] * 4)
            )
        )
        assert sorted(one for [one] in done) == [NotePut.OTHER] * 7 + [NotePut.WRITTEN]
        [value] = await kit.store.notes([name])
        assert value == str([one for [one] in done].index(NotePut.WRITTEN)).encode()


async def test_counting_by_compare_and_set_loses_nothing(kit: Kit) -> None:
    async def add() -> None:
        while True:
            [there] = await kit.store.notes([A])
            more = str(int(there or b"0") + 1).encode()
            if await kit.store.put_notes([put(A, more, there)]) == [NotePut.WRITTEN]:
                return

    await asyncio.gather(*(add() for _ in range(12)))
    assert await kit.store.notes([A]) == [b"12"]


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_note_that_cannot_be_written_fails_alone(kit: Kit, place: int) -> None:
    puts = [put(NoteName("group", "s", f"k{i}"), b"v") for i in range(4)]
    puts.insert(place, put(NoteName("group", "s", HALF), b"v"))
    outcomes = await kit.store.put_notes(puts)
    bad = outcomes.pop(place)
    if bad is NotePut.WRITTEN:
        pytest.skip("a store in memory holds what others cannot write")
    assert bad is NotePut.INVALID
    assert outcomes == [NotePut.WRITTEN] * 4
    assert [note.key for note in await kit.store.list_notes("group", "s")] == [
        f"k{i}" for i in range(4)
    ]


async def test_a_note_that_is_not_what_was_expected_fails_alone(kit: Kit) -> None:
    await kit.store.put_notes([put(A, b"1")])
    puts = [put(NoteName("group", "s", "b"), b"1"), put(A, b"2"), put(A._replace(key="c"), b"1")]
    outcomes = await kit.store.put_notes(puts)
    assert outcomes == [NotePut.WRITTEN, NotePut.OTHER, NotePut.WRITTEN]


async def test_notes_are_there_when_the_store_is_opened_again(kit: Kit) -> None:
    await kit.store.put_notes([put(A, b"1")])
    store = await kit.again()
    assert await store.notes([A]) == [b"1"]
