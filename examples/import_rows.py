"""A file of any length, a task for each line: the file is read while what was read is stored."""

import asyncio
import csv
import io
from collections.abc import Iterable

from andon import Andon, State, TaskHandle

app = Andon()

FILE = io.StringIO("account,cents\n" + "".join(f"a{n % 50},{n}\n" for n in range(2_000)))


@app.task
async def book(account: str, cents: int) -> str:
    return f"{account}: {cents / 100:.2f}"


async def take_in(lines: Iterable[str]) -> TaskHandle[str]:
    stored = refused = 0
    last = ""
    # An id of the line's own: if this is run again, what is there already is found to be there.
    rows = (
        book.options(id=f"import-1-{number}").draft(row["account"], int(row["cents"]))
        for number, row in enumerate(csv.DictReader(lines), 1)
    )
    async for some in app.submit_stream(rows):
        for outcome in some:
            if outcome.error is not None:
                refused += 1
                print(outcome.id, outcome.error)
            else:
                stored += outcome.created
                last = outcome.id
    print(f"{stored} stored, {refused} refused")
    return app.handle(last, book)


async def main() -> None:
    async with app:
        await take_in(FILE)
        FILE.seek(0)
        last = await take_in(FILE)  # once more: no second task of any line
        async with app.working():
            print(await last.result(timeout=30))
            assert await last.status() is State.COMPLETED


if __name__ == "__main__":
    asyncio.run(main())
