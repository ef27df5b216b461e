"""The log is read out of the records while they are written; no move may be passed over."""

import pytest

from andon.lifecycle.admission import admit
from andon.model.task import Definition
from andon.stores.kit.codec import encode
from andon.stores.nats import NatsStore
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_codec import Archive


async def test_a_record_written_before_an_archive_between_two_reads_is_not_passed_over(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def submit(task_id: str) -> None:
        now = store.now()
        await store.create([admit(Definition(id=task_id, name="job"), now, f"w-{task_id}")])

    await submit("first")
    assert store._context is not None
    records = store._context.records[0]
    confirmed_page = records.confirmed_page

    async def meanwhile(subject: str, seq: int, limit: int) -> list[Reply]:
        if subject == records.subjects.of("h", ">"):
            monkeypatch.setattr(records, "confirmed_page", confirmed_page)
            await submit("second")
            archive = encode(Archive("first", 1, (), ()))
            write = (records.subjects.archive("first", 1), archive, None)
            await records.js.write(records.subjects.stream, [write])
        return await confirmed_page(subject, seq, limit)

    monkeypatch.setattr(records, "confirmed_page", meanwhile)
    page = await store.events("")
    found = [*page.events, *(await store.events(page.cursor)).events]
    assert [event.task for event in found] == ["first", "second"]
