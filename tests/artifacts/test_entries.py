"""Artifacts that are no files, files that are registered before their bytes come, and how one that
is there already may be registered again; in each kind of place."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from andon.artifacts.base import Artifact, ArtifactConflict, ArtifactNotFound
from andon.artifacts.blobs import Blobs, once
from andon.artifacts.entries import MAX_LINKS
from andon.model.errors import InvalidSubmission

from .conftest import Kept, pieces


def entry(kept: Kept, name: str = "out", **fields: Any) -> Artifact:
    fields = {"task": "t", "run": 0, "content_type": "text/plain", **fields}
    return Artifact(name=name, created_at=kept.ms, **fields)


def link(kept: Kept, name: str, target: str, **fields: Any) -> Artifact:
    return entry(kept, name, kind="link", target=target, **fields)


async def names(kept: Kept, **options: Any) -> list[str]:
    return [artifact.name for artifact in await kept.find("t", **options)]


async def test_a_registered_file_is_listed_before_its_bytes_have_come(kept: Kept):
    made = await kept.register(entry(kept, expires_at=kept.ms + 100))
    assert not made.is_present
    assert await kept.find("t") == [made]
    with pytest.raises(ArtifactNotFound):
        await kept.content("t", "out")
    filled = await kept.fill("t", 0, "out", pieces(b"as sent"), encoding="gzip")
    assert filled.is_present
    assert (filled.size, filled.encoding, filled.content_type) == (7, "gzip", "text/plain")
    assert filled.expires_at == made.expires_at
    assert await kept.find("t") == [filled] == [await kept.get("t", 0, "out")]
    assert await kept.content("t", "out", start=3) == b"sent"


async def test_bytes_that_come_again_take_the_place_of_those_before(kept: Kept, place: Blobs):
    await kept.register(entry(kept))
    await kept.fill("t", 0, "out", pieces(b"first"), encoding="gzip")
    await kept.fill("t", 0, "out", pieces(b"second"))
    assert await kept.content("t", "out") == b"second"
    found = await kept.get("t", 0, "out")
    assert found is not None
    assert found.encoding == ""
    assert len(await place.files(found.data.rpartition("/")[0])) == 1


async def test_an_upload_that_is_cut_leaves_nothing_and_keeps_what_was_there(kept: Kept):
    async def cut() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError("gone")

    await kept.register(entry(kept))
    with pytest.raises(Exception, match="gone"):
        await kept.fill("t", 0, "out", cut())
    found = await kept.get("t", 0, "out")
    assert found is not None
    assert not found.is_present
    await kept.fill("t", 0, "out", pieces(b"whole"))
    with pytest.raises(Exception, match="gone"):
        await kept.fill("t", 0, "out", cut())
    assert await kept.content("t", "out") == b"whole"


async def test_only_a_registered_file_is_filled(kept: Kept):
    await kept.register(entry(kept, "elsewhere", kind="reference", url="https://example.org/x"))
    await kept.register(entry(kept, "over", expires_at=kept.ms + 1))
    kept.ms += 1
    for name in ("elsewhere", "over", "nothing"):
        with pytest.raises(ArtifactNotFound):
            await kept.fill("t", 0, name, pieces(b"x"))


async def test_a_file_that_was_put_may_be_filled_and_one_that_was_registered_be_put(kept: Kept):
    await kept.left("put", b"first", content_type="a/b")
    filled = await kept.fill("t", 0, "put", pieces(b"second"), encoding="br")
    assert (filled.content_type, filled.encoding) == ("a/b", "br")
    assert await kept.content("t", "put") == b"second"

    await kept.register(entry(kept))
    await kept.fill("t", 0, "out", pieces(b"first"))
    await kept.left("out", b"second", content_type="c/d", encoding="gzip")
    found = await kept.get("t", 0, "out")
    assert found is not None
    assert (found.content_type, found.encoding, found.size) == ("c/d", "gzip", 6)
    assert await kept.content("t", "out") == b"second"


async def test_with_an_upload_id_a_file_is_shown_when_it_is_complete(kept: Kept):
    await kept.register(entry(kept, upload="u1"))
    with pytest.raises(InvalidSubmission, match="have not come"):
        await kept.finish("t", 0, "out", "u1")
    await kept.fill("t", 0, "out", pieces(b"x"))
    assert await kept.find("t") == []
    with pytest.raises(ArtifactNotFound):
        await kept.latest("t", "out")
    for wrong in ("u2", ""):
        with pytest.raises(InvalidSubmission, match="upload id"):
            await kept.finish("t", 0, "out", wrong)
    again = await kept.register(entry(kept, upload="u2"))
    assert again.upload == "u1"
    finished = await kept.finish("t", 0, "out", "u1")
    assert finished.is_present
    assert await kept.finish("t", 0, "out", "u1") == finished
    assert await kept.find("t") == [finished]
    assert (await kept.register(entry(kept, upload="u3"))).is_present
    with pytest.raises(ArtifactNotFound):
        await kept.finish("t", 0, "nothing", "u1")


REFERENCE = {"kind": "reference", "url": "https://example.org/live"}
ERROR = {"kind": "error", "reason": "too-large", "message": "it has 9 GiB"}
LINK = {"kind": "link", "target": "log"}

AGAIN: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("the same file", {}, {}, ""),
    ("another type", {}, {"content_type": "a/b"}, "another content type"),
    ("a later end", {"expires_at": 10}, {"expires_at": 20}, ""),
    ("without an end", {"expires_at": 10}, {}, ""),
    ("an earlier end", {"expires_at": 20}, {"expires_at": 10}, "expires later"),
    ("an end where there was none", {}, {"expires_at": 10}, "expires later"),
    ("an upload of another kind", {}, {"upload": "u"}, "another way"),
    ("the same reference", REFERENCE, REFERENCE, ""),
    ("a reference elsewhere", REFERENCE, {**REFERENCE, "url": "http://example.org"}, ""),
    (
        "a reference of another type",
        REFERENCE,
        {**REFERENCE, "content_type": "a/b"},
        "another content type",
    ),
    ("a reference that becomes a link", REFERENCE, LINK, ""),
    ("a reference that becomes a file", REFERENCE, {}, "another kind"),
    ("a reference that becomes an error", REFERENCE, ERROR, "another kind"),
    ("the same link", LINK, LINK, ""),
    ("a link of another type", LINK, {**LINK, "content_type": "a/b"}, ""),
    ("a link elsewhere", LINK, {**LINK, "target": "other"}, "another target"),
    ("a link that becomes a reference", LINK, REFERENCE, "another kind"),
    ("the same error", ERROR, ERROR, ""),
    ("another reason", ERROR, {**ERROR, "reason": "missing"}, "another reason"),
    ("another message", ERROR, {**ERROR, "message": "no"}, "another message"),
    ("a file that becomes a link", {}, LINK, "another kind"),
]


@pytest.mark.parametrize(("case", "first", "second", "problem"), AGAIN, ids=[a[0] for a in AGAIN])
async def test_what_is_registered_again_is_the_same_or_is_refused(
    kept: Kept, case: str, first: dict[str, Any], second: dict[str, Any], problem: str
):
    def made(fields: dict[str, Any]) -> Artifact:
        ends = fields.get("expires_at")
        return entry(kept, **{**fields, "expires_at": ends and kept.ms + 1_000 * ends})

    before = await kept.register(made(first))
    if problem:
        with pytest.raises(ArtifactConflict, match=problem):
            await kept.register(made(second))
        assert await kept.get("t", 0, "out") == before
        return
    after = await kept.register(made(second))
    assert await kept.get("t", 0, "out") == after
    assert after.expires_at == made(second).expires_at
    assert (after.kind, after.url, after.target) == (
        (wanted := made(second)).kind,
        wanted.url,
        wanted.target,
    )


async def test_registering_again_late_loses_no_bytes_that_came_meanwhile(kept: Kept):
    await kept.register(entry(kept))
    filled = await kept.fill("t", 0, "out", pieces(b"whole"))
    again = await kept.register(entry(kept, expires_at=None))
    assert again == filled
    assert await kept.content("t", "out") == b"whole"


async def test_of_those_who_register_at_once_one_is_first(kept: Kept):
    both = await asyncio.gather(
        *(kept.register(entry(kept, content_type=f"a/{n % 2}")) for n in range(6)),
        return_exceptions=True,
    )
    made = [one for one in both if isinstance(one, Artifact)]
    assert len({one.content_type for one in made}) == 1
    assert len(made) == 3
    assert all(isinstance(one, ArtifactConflict) for one in both if one not in made)


async def test_an_expired_entry_makes_room_for_another(kept: Kept):
    await kept.register(entry(kept, expires_at=kept.ms + 5, **ERROR))
    kept.ms += 5
    assert await kept.find("t") == []
    assert (await kept.get("t", 0, "out")) is not None  # until it is swept
    await kept.register(entry(kept))
    assert [artifact.kind for artifact in await kept.find("t")] == ["file"]


async def test_a_damaged_entry_makes_room_for_another(kept: Kept, place: Blobs):
    await kept.register(entry(kept))
    await place.put(kept._meta("t", 0, "out"), once(b"{"))
    assert await kept.find("t") == []
    await kept.register(entry(kept, content_type="a/b"))
    assert [artifact.content_type for artifact in await kept.find("t")] == ["a/b"]


async def test_a_file_is_not_put_in_the_place_of_what_is_none(kept: Kept):
    await kept.register(link(kept, "out", "log"))
    with pytest.raises(ArtifactConflict, match="is no file"):
        await kept.left("out")
    found = await kept.get("t", 0, "out")
    assert found is not None
    assert found.kind == "link"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "reference"}, "url"),
        ({"kind": "reference", "url": "ftp://x/y"}, "url"),
        ({"kind": "reference", "url": "https://"}, "url"),
        ({"kind": "reference", "url": "javascript:alert(1)"}, "url"),
        ({"kind": "reference", "url": "https://x/a b"}, "url"),
        ({"kind": "reference", "url": "https://x/\n"}, "url"),
        ({"kind": "reference", "url": "https://[x"}, "url"),
        ({"kind": "reference", "url": "https://x/" + "y" * 9_000}, "url"),
        ({"kind": "link"}, "artifact name"),
        ({"kind": "link", "target": "a\nb"}, "artifact name"),
        ({"kind": "error", "message": "x"}, "reason"),
        ({"kind": "error", "reason": "x", "message": "y" * 4_097}, "message"),
        ({"url": "https://x/y"}, "url"),
        ({"target": "x"}, "target"),
        ({"reason": "x"}, "reason"),
        ({"content_type": "x" * 256}, "content type"),
        ({"content_type": "a/b\r\nx: y"}, "content type"),
        ({"name": "x" * 1_025}, "artifact name"),
        ({"name": ""}, "artifact name"),
    ],
)
async def test_an_entry_that_cannot_be_is_refused(kept: Kept, fields: dict[str, Any], problem: str):
    with pytest.raises(InvalidSubmission, match=problem):
        await kept.register(entry(kept, **fields))
    assert await kept.find("t") == []


@pytest.mark.parametrize("bad", ["gz\nip", "é", "x" * 101])
async def test_an_encoding_that_cannot_stand_in_a_header_is_refused(kept: Kept, bad: str):
    with pytest.raises(InvalidSubmission, match="content encoding"):
        await kept.left("out", encoding=bad)
    assert await kept.find("t") == []


async def test_a_link_is_followed_to_its_end_and_never_in_a_circle(kept: Kept):
    await kept.left("log", b"lines")
    previous = "log"
    for number in range(30):
        await kept.register(link(kept, f"l{number}", previous))
        previous = f"l{number}"
    passed: list[str] = []
    last = await kept.latest("t", previous)
    found = await kept.follow(last, lambda artifact: passed.append(artifact.name))
    assert found.name == "log"
    assert passed == [f"l{number}" for number in reversed(range(30))] + ["log"]
    assert (await kept.follow(found)).name == "log"

    await kept.register(link(kept, "a", "b"))
    await kept.register(link(kept, "b", "a"))
    await kept.register(link(kept, "me", "me"))
    await kept.register(link(kept, "lost", "nothing"))
    for name in ("a", "b", "me"):
        with pytest.raises(ArtifactConflict, match="leads back"):
            await kept.follow(await kept.latest("t", name))
    with pytest.raises(ArtifactNotFound):
        await kept.follow(await kept.latest("t", "lost"))


async def test_a_link_to_what_is_over_or_not_complete_leads_nowhere(kept: Kept):
    await kept.register(entry(kept, "soon over", expires_at=kept.ms + 1))
    await kept.register(entry(kept, "not complete", upload="u"))
    await kept.register(link(kept, "one", "soon over"))
    await kept.register(link(kept, "two", "not complete"))
    kept.ms += 1
    for name in ("one", "two"):
        with pytest.raises(ArtifactNotFound):
            await kept.follow(await kept.latest("t", name))


async def test_links_are_followed_so_far_and_no_further(kept: Kept):
    for number in range(MAX_LINKS + 2):
        await kept.register(link(kept, f"l{number}", f"l{number + 1}"))
    with pytest.raises(ArtifactConflict, match="leads back"):
        await kept.follow(await kept.latest("t", "l0"))


LONG = ["x" * 1_024, "public/" + "ü" * 800, "x" * 200, "x" * 201, "x" * 1_023 + ".", "=" * 300]


async def test_long_names_are_kept_listed_and_told_apart(kept: Kept):
    for name in LONG:
        await kept.left(name, name.encode())
    await kept.register(link(kept, "y" * 1_000, LONG[0]))
    for name in LONG:
        assert await kept.content("t", name) == name.encode()
    assert await names(kept) == sorted([*LONG, "y" * 1_000])
    assert await swept_all(kept) == 1


async def test_pages_are_by_name_whatever_a_path_makes_of_it(kept: Kept):
    wanted = ["!", "a", "a b", "a/b", "a.b", "ab", "A", "ä", "b" * 500, "~", "%41"]
    for name in wanted:
        await kept.left(name)
    await kept.left("over", expires_at=kept.ms + 1)
    await kept.register(entry(kept, "hidden", upload="u"))
    kept.ms += 1
    for size in (1, 3, 4, 100):
        seen: list[str] = []
        after = ""
        while True:
            page = await kept.page("t", 0, after=after, limit=size)
            assert len(page.artifacts) <= size
            seen += [artifact.name for artifact in page.artifacts]
            after = page.after
            if not after:
                break
        assert seen == sorted(wanted), size
    assert (await kept.page("t", 1)).artifacts == ()
    assert await names(kept) == sorted(wanted)


async def test_a_page_goes_on_after_a_name_that_has_gone(kept: Kept):
    for name in ("a", "b", "c", "d"):
        await kept.left(name, expires_at=kept.ms + (5 if name == "b" else 500))
    page = await kept.page("t", 0, limit=2)
    kept.ms += 5
    await swept_all(kept, alive={"t"})
    assert [a.name for a in (await kept.page("t", 0, after=page.after)).artifacts] == ["c", "d"]


async def swept_all(kept: Kept, alive: frozenset[str] | set[str] = frozenset()) -> int:
    gone = 0
    for shard in await kept.shards():

        async def lives(ids: Any) -> set[str]:
            return set(ids) & alive

        def failed(task: str, error: Exception) -> None:
            raise error

        gone += await kept.sweep(shard, lives, failed)
    return gone


async def test_expired_entries_are_swept_with_their_bytes(kept: Kept, place: Blobs):
    await kept.register(entry(kept, "bytes", expires_at=kept.ms + 1))
    await kept.fill("t", 0, "bytes", pieces(b"x"))
    await kept.register(entry(kept, "none", expires_at=kept.ms + 1))
    await kept.register(entry(kept, "elsewhere", expires_at=kept.ms + 1, **REFERENCE))
    await kept.left("stays")
    kept.ms += 1
    assert await swept_all(kept, alive={"t"}) == 3
    folder = kept._folder("t", 0)
    assert [len(await place.files(f"{folder}/{kind}")) for kind in ("meta", "bytes", "data")] == [
        1,
        0,
        1,
    ]
    assert await names(kept) == ["stays"]


async def test_what_an_older_release_kept_is_read(kept: Kept, place: Blobs):
    folder = kept._folder("t", 0)
    await place.put(f"{folder}/data/0011223344556677", once(b"old"))
    older = {
        "task": "t",
        "run": 0,
        "name": "a/b.txt",
        "size": 3,
        "sha256": "00" * 32,
        "content_type": "text/plain",
        "created_at": 5,
        "expires_at": None,
        "data": f"{folder}/data/0011223344556677",
    }
    await place.put(f"{folder}/meta/a%2Fb%2Etxt", once(msgspec.json.encode(older)))
    [found] = await kept.find("t")
    assert found == Artifact(**older)
    assert found.is_present
    assert (await kept.page("t", 0)).artifacts == (found,)
    assert await kept.content("t", "a/b.txt") == b"old"
    assert (
        await kept.register(
            Artifact(task="t", run=0, name="a/b.txt", content_type="text/plain", created_at=9)
        )
        == found
    )


async def test_a_path_is_created_once(place: Blobs):
    assert await place.create("x/y", b"")
    made = await asyncio.gather(*(place.create("x/z", b"%d" % n) for n in range(4)))
    assert sorted(made) == [False, False, False, True]
    assert not await place.create("x/z", b"late")
    content = b"".join([piece async for piece in place.read("x/z")])
    assert content == b"%d" % made.index(True)
    assert await place.files("x") == ["y", "z"]
