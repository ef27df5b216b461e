"""The board as an ASGI application: authentication, routes, and the headers of each answer.

It needs no framework: its routes are few, and an application that mounts it keeps its own
framework. Every answer has a content security policy that lets the page load from its own origin
only, and forbids all other scripts.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from andon.dashboard.access import Gate, LocalOnly, Visitor
from andon.dashboard.acts import Acts
from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked
from andon.dashboard.assets import answer_asset
from andon.dashboard.downloads import Download, send_download
from andon.dashboard.live import MOST_TOPICS, Live, Stream
from andon.dashboard.pages import frame as frames
from andon.dashboard.pages import messages
from andon.dashboard.patience import AWAY
from andon.dashboard.reading import Reader
from andon.dashboard.requests import (
    TEXT,
    Answer,
    Fields,
    Refused,
    Request,
    path_in,
    see_other,
    send_answer,
)
from andon.dashboard.sessions import Session
from andon.dashboard.showing import Pages
from andon.dashboard.sources import source_of
from andon.dashboard.views.bodies import Redaction
from andon.engine.actor import acting_as
from andon.model.errors import (
    AccessError,
    AndonError,
    StoreError,
    TaskNotFound,
)

if TYPE_CHECKING:
    from andon.dashboard.requests import Receive, Scope, Send
    from andon.dashboard.tokens import TokenBook
    from andon.engine.base import Engine

log = logging.getLogger("andon.board")

POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_AROUND = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_FIRST = frozenset(
    {path[1:] for path, _, _ in frames.PAGES if path != "/"}
    | {"acts", "bulk", "enter", "leave", "live", "search", "static", "types"}
)
"""The first parts of the board's paths."""

_FRESH = (b"cache-control", b"no-store")


class Board:
    """The board of one store, as an ASGI application; `Andon.board` makes one.

    Example:
        board = app.board()  # fastapi_app.mount("/board", board)
        board.begin_stop()  # what a server calls that waits for streams to end
    """

    def __init__(
        self,
        engine: "Callable[[], Awaitable[Engine]]",
        *,
        gate: Gate | None = None,
        tokens: "TokenBook | None" = None,
        at: str | None = None,
        hide: Sequence[str] = (),
        location: str = "",
    ) -> None:
        self._gate: Gate = gate or LocalOnly()
        self._tokens = tokens
        self._at = at
        self._reader = Reader(engine, Redaction(hide), location)
        self._bulk = self._reader.bulk
        self._pages = Pages(self._reader, self._bulk, tokens)
        self._acts = Acts(self._reader, tokens)
        self.live = Live(self._reader)  #: its streams

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live_along(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"The board answers HTTP, not {scope['type']}.")
        request = Request.__new__(Request)
        try:
            request = Request(scope, receive, self._at)
            if request.path == "/live" and request.method == "GET":
                await self._stream(request, receive, send)
                return
            answer = await self._answer(request)
            if isinstance(answer, Download):
                await send_download(answer, send, _AROUND, head=request.method == "HEAD")
                return
        except Refused as refused:
            answer = Answer(status=refused.status, body=refused.detail.encode(), content_type=TEXT)
        if not any(name == b"cache-control" for name, _ in answer.headers):
            answer.headers.append(_FRESH)
        answer.headers += _AROUND
        await send_answer(answer, send, head=scope["method"] == "HEAD")

    def is_here(self, path: str) -> bool:
        """Whether a path, below the place where it is mounted, is one of the board's."""
        return path == "/" or path.split("/", 2)[1] in _FIRST

    def begin_stop(self) -> None:
        """End all streams, and the acts on many that are under way: the process is about to
        stop."""
        self.live.end_all("stopping")
        self._bulk.stop()

    async def _answer(self, request: Request) -> Answer | Download:
        if request.path.startswith("/static/"):
            return answer_asset(request)
        session = Session(request)
        visitor: Visitor | None = None
        answer: Answer | Download
        try:
            if request.method == "POST" and request.path == "/enter":
                answer = await self._enter(request, session)
            else:
                visitor = await self._gate.visitor(request, session.token)
                if visitor is None:
                    answer = self._ask_for_token(request, session)
                else:
                    answer = await self._for(visitor, request, session)
        except Refused as refused:
            answer = self._refusal(request, session, visitor, refused)
        except AccessError as error:
            refused = Refused(403, "Not allowed", str(error))
            answer = self._refusal(request, session, visitor, refused)
        except TaskNotFound as error:
            answer = self._refusal(request, session, visitor, Refused(404, "Not here", str(error)))
        except (StoreError, OSError) as error:
            log.warning("%s %s failed: %s", request.method, request.path[:200], error)
            refused = Refused(503, "The store does not answer", AWAY)
            answer = self._refusal(request, session, visitor, refused)
        except AndonError as error:
            answer = self._refusal(request, session, visitor, Refused(400, "Not so", str(error)))
        except Exception:
            log.exception("%s %s failed", request.method, request.path[:200])
            refused = Refused(500, "Something went wrong", "The board's log says what it was.")
            answer = self._refusal(request, session, visitor, refused)
        if isinstance(answer, Answer):
            session.keep(answer)
        return answer

    async def _for(self, visitor: Visitor, request: Request, session: Session) -> Answer | Download:
        place = self._place(request, visitor, session.form_token)
        if request.method in ("GET", "HEAD"):
            asked = Asked(request.path, request.query, place)
            with self._reader.page():
                shown = await self._pages.show(asked)
            if isinstance(shown, Answer | Download):
                return shown
            return self._page(request, session, place, shown)
        if request.method != "POST":
            raise Refused(405, "Not so", "The board takes GET and POST.")
        form = await request.form()
        session.check(form)
        if request.path == "/leave":
            answer = see_other(place.to("/"))
            session.leave(answer)
            return answer
        form = Fields([*request.query.pairs, *form.pairs])
        with acting_as(visitor.actor or visitor.name):
            done = await self._acts.do(request.path, form, place)
        if done.page is not None:
            return self._page(request, session, place, done.page)
        answer = see_other(_back(request, form, done.to))
        if done.said:
            session.say(answer, done.said)
        return answer

    def _place(self, request: Request, visitor: Visitor, form_token: str = "") -> frames.Place:
        has_tokens = self._tokens is not None
        return frames.Place(request.root, visitor, has_tokens=has_tokens, form_token=form_token)

    def _page(
        self, request: Request, session: Session, place: frames.Place, shown: Shown
    ) -> Answer:
        query = request.query.encoded()
        frame = frames.Frame(
            place=place,
            title=shown.title,
            path=request.path,
            here=f"{request.path}{'?' + query if query else ''}",
            form_token=session.form_token,
            said=session.said,
            topics=shown.topics,
            store=self._reader.location if place.may("admin:storage") else "",
            notice=shown.notice,
            can_leave=bool(session.token) and place.visitor.is_known,
        )
        body = str(frames.page(frame, *shown.content))
        return Answer(status=shown.status, body=body.encode("utf-8", "backslashreplace"))

    # --- who may not, or not yet ---

    async def _enter(self, request: Request, session: Session) -> Answer:
        form = await request.form()
        session.check(form)
        token = form.get("token").strip()
        try:
            visitor = await self._gate.visitor(request, token) if token else None
        except AccessError as error:
            return self._ask_for_token(request, session, wrong=str(error))
        if visitor is None:
            return self._ask_for_token(request, session, wrong="Give a token.")
        answer = see_other(request.root + path_in(form.get("back")))
        session.enter(answer, token)
        return answer

    def _ask_for_token(self, request: Request, session: Session, wrong: str = "") -> Answer:
        back = request.path if request.path not in ("/enter", "/leave") else "/"
        shown = messages.asks_for_token(request.root, session.form_token, back, wrong)
        return Answer(status=401, body=str(shown).encode())

    def _refusal(
        self, request: Request, session: Session, visitor: Visitor | None, refused: Refused
    ) -> Answer:
        place = self._place(request, visitor or Visitor(name="", scopes=()))
        away = refused.status == 503
        shown = Shown(
            refused.title,
            [messages.refusal(refused.title, refused.detail, away=away)],
            status=refused.status,
            topics=("store",) if away and visitor is not None else (),
            notice=refused.detail if away else "",
        )
        return self._page(request, session, place, shown)

    # --- live ---

    async def _stream(self, request: Request, receive: "Receive", send: "Send") -> None:
        session = Session(request)
        try:
            visitor = await self._gate.visitor(request, session.token)
        except AccessError as error:
            raise Refused(403, "Not allowed", str(error)) from error
        if visitor is None:
            raise Refused(401, "Who are you?", "This needs a token.")
        topics = request.query.all("topic")[:MOST_TOPICS]
        sources = {
            topic: source
            for topic in topics
            if (source := source_of(topic)) is not None and source.is_for(visitor)
        }
        if not sources:
            raise Refused(404, "Nothing to see", "There is nothing live of that name.")
        # Drawn once for all visitors who may see the same.
        alike = msgspec.structs.replace(visitor, name="")
        place = self._place(request, alike)
        seen = self.live.place_after(request.header("last-event-id"))
        viewer = self.live.join(place, sources, seen)

        async def still_may() -> bool:
            try:
                now = await self._gate.visitor(request, session.token)
            except (Refused, AccessError):
                return False
            except (AndonError, OSError):
                return True  # it cannot be known now, and is asked again
            return now is not None and now.scopes == visitor.scopes

        await Stream(self.live, viewer, still_may).run(receive, send)


def _back(request: Request, form: Fields, to: str) -> str:
    return request.root + (to or path_in(form.get("back")))


async def _live_along(receive: "Receive", send: "Send") -> None:
    """Start and stop with a server that runs only the board: there is nothing to do."""
    while True:
        message: Any = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
