"""The log is read out of the records while they are written; no move may be passed over."""

import pytest

from andon.lifecycle.admission import admit
from andon.model.task import Definition
from andon.stores.codec import encode
from andon.stores.nats import NatsStore
from andon.stores.nats.bodies import Archive
from andon.stores.nats.library import Reply


async def test_a_record_written_before_an_archive_between_two_reads_is_not_passed_over(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def submit(task_id: str) -> None:
        now = store.now()
        await store.create([admit(Definition(id=task_id, name="job"), now, f"w-{task_id}")])

    await submit("first")
    assert store._core is not None
    heads = store._core.heads[0]
    surely = heads.surely

    async def meanwhile(subject: str, seq: int, limit: int) -> list[Reply]:
        if subject == heads.names.of("h", ">"):
            monkeypatch.setattr(heads, "surely", surely)
            await submit("second")
            archive = encode(Archive("first", 1, (), ()))
            write = (heads.names.archive("first", 1), archive, None)
            await heads.wire.write(heads.names.stream, [write])
        return await surely(subject, seq, limit)

    monkeypatch.setattr(heads, "surely", meanwhile)
    page = await store.events("")
    found = [*page.events, *(await store.events(page.cursor)).events]
    assert [event.task for event in found] == ["first", "second"]
