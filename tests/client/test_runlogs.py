"""What a task's runs logged and left behind, through its handle."""

from pathlib import Path

import pytest

from andon import Andon, Context
from andon.errors import ArtifactNotFound, TaskNotFound


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/andon.db")


async def test_logs_are_followed_to_the_end_and_files_are_read(app: Andon):
    @app.task(name="print")
    async def print_page(ctx: Context, page: int) -> None:
        ctx.log.warning("printing %d", page)
        await ctx.artifact("page.txt", f"page {page}")

    async with app, app.working():
        handle = await print_page.submit(7)
        lines = [line async for line in handle.logs(follow=True)]
        assert [(line.level, line.text) for line in lines] == [("warning", "printing 7")]
        assert [line.text async for line in handle.logs(run=0)] == ["printing 7"]
        [kept] = await handle.artifacts()
        assert (kept.name, kept.run) == ("page.txt", 0)
        assert await handle.read_artifact("page.txt") == b"page 7"
        with pytest.raises(ArtifactNotFound, match=r"other\.txt"):
            await handle.read_artifact("other.txt")


async def test_a_task_that_there_is_none_of_has_no_log(app: Andon):
    async with app:
        with pytest.raises(TaskNotFound):
            [line async for line in app.handle("nothing").logs()]
