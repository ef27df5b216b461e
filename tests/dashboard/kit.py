"""A board to look at: a service with tasks of every kind, and a client that reads its pages."""

import re
from typing import Any

import httpx
from service.kit import Running

from andon import Andon

from .dom import Element, parsed

POLICY = "default-src 'self'"


class Site:
    """The board as a browser without script would use it."""

    def __init__(self, running: Running, **headers: str) -> None:
        self.running = running
        self.http = running.client(follow_redirects=True)
        self.http.headers.update(headers)
        self.last: httpx.Response | None = None

    def get(self, path: str, status: int = 200) -> Element:
        """A page, taken apart."""
        return self._page(self.http.get(path), status)

    def post(
        self, path: str, fields: dict[str, Any], status: int = 200, *, at: str = "/"
    ) -> Element:
        """What a form sends, from the page at `at`: with its hidden fields."""
        form = self.get(at).one("form", id="act")
        hidden = {one["name"]: one["value"] for one in form.every("input", type="hidden")}
        return self.send(path, hidden | fields, status)

    def send(self, path: str, fields: dict[str, Any], status: int = 200, **headers: str) -> Element:
        """A form as it is given here."""
        sent = {"origin": self.running.url} | headers
        return self._page(self.http.post(path, data=fields, headers=sent), status)

    def _page(self, answer: httpx.Response, status: int) -> Element:
        self.last = answer
        assert status in (0, answer.status_code), (answer.status_code, answer.text[:2_000])
        policy = answer.headers["content-security-policy"]
        assert policy.startswith(POLICY)
        assert "unsafe" not in policy
        page = parsed(answer.text)
        assert not any(one.attributes.keys() & {"style", "onclick"} for one in page.every())
        assert [one for one in page.every("script") if "src" not in one.attributes] == []
        assert list(page.every("style")) == []
        assert not re.search(r'(?:href|src|action)="(?:https?:)?//', answer.text)
        return page

    def close(self) -> None:
        self.http.close()


def make_app(url: str, **options: Any) -> Andon:
    """An application with a handler of each kind."""
    app = Andon(url, **options)

    @app.task(name="shop.charge", queue="billing", max_retries=0)
    async def charge(order: int, card_token: str = "tok-4242") -> dict[str, int]:
        if order < 0:
            raise ValueError(f"Order {-order} not found in ledger 'L{-order}'")
        return {"paid": order}

    @app.task(name="shop.remind", queue="mail")
    async def remind(to: str) -> str:
        return f"sent to {to}"

    return app


class NoReader:
    """A reader for sources that read nothing of a store."""

    def __init__(self) -> None:
        self.forgot = 0

    def forget(self) -> None:
        """Count that all values were to be forgotten."""
        self.forgot += 1
