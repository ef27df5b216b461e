"""A key's places are given in order, also to what waits for its code; and that is named."""

import random

from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Cancel
from andon.lifecycle.waiting import Why
from andon.model.code import Code
from andon.model.fleet import WorkerInfo

from .kit import Kit, ids, needs_one_line

KNOWN = Code.of([("known", 0)])


async def test_a_task_behind_one_of_its_key_that_nobody_has_code_for_names_it(kit: Kit) -> None:
    needs_one_line(kit)
    await kit.configure(max_concurrent_per_key=1)
    engine = LocalEngine(kit.store, random=random.Random(7))
    await engine.keep_code(KNOWN)
    await kit.store.put_worker(
        WorkerInfo(id="w", queues=("default",), concurrency=2, code=KNOWN.digest)
    )
    absent = await kit.submit("a", name="absent", key="k")
    await kit.pass_time(2)
    await kit.submit("b", name="known", key="k")
    await kit.submit("c", name="known", key="other")
    assert ids(await kit.claim(5, code=KNOWN)) == ["c"]

    wait = await engine.wait_of(await kit.there("b"))
    assert wait is not None
    assert wait.why is Why.KEY_BLOCKED
    assert wait.text == "comes after a of the same key, which waits for a worker that has absent"
    first = await engine.wait_of(await kit.there("a"))
    assert first is not None
    assert first.why is Why.NO_CODE
    [kind] = await engine.waits(["default"])
    assert (kind.kind, kind.why) == ("absent", Why.NO_CODE)

    await kit.move(absent, Cancel())
    assert await engine.wait_of(await kit.there("b")) is None
    assert ids(await kit.claim(5, code=KNOWN)) == ["b"]
