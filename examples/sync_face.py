"""The same from code that is not async: a script, a Django view."""

from andon import Andon, State

app = Andon()


@app.task(queue="mail", unique=True)
def send_invoice(number: int, *, copy_to: str | None = None) -> str:
    return f"invoice {number} sent"


def main() -> None:
    with app.sync:
        handle = send_invoice.sync.submit(4711, copy_to="books@example.org")
        print(handle.status(), handle.get().args)
        assert handle.cancel() is State.CANCELLED
        later = send_invoice.sync.submit_in(3600, 4712)
        print(later.get().run_at)
        for move in later.history():
            print(move.at, move.source, "->", move.target)


if __name__ == "__main__":
    main()
