"""Live pages: reads and draws fragments once for all viewers, and sends them over one stream a
page.

A source is read while a viewer looks at it, and only then. Each drawing is compared with the one
before: only changed fragments are sent, under a number that grows. A viewer knows the number it has
seen, so it can lag, leave and come back (`Last-Event-ID`): it gets the newest of each fragment that
has changed since, never the ones between. A source that fails is tried again, and its viewers see a
message; it stops no other.

All readings of a board share one budget of time (`patience.Budget`): costly sources are read more
seldom, and their viewers see how old the fragments may be. A viewer of a source that was not read
for a while causes a reading at once, and gets nothing older.
"""

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from andon.dashboard.patience import AWAY, Budget, cost_of, told_age, until_next
from andon.dashboard.requests import Refused
from andon.model.errors import AndonError, TaskNotFound

if TYPE_CHECKING:
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.requests import Receive, Send
    from andon.dashboard.source import Source

log = logging.getLogger("andon.board")

MOST_STREAMS = 2_000
MOST_TOPICS = 8
PING_S = 15.0
"""After so much silence a comment is sent, so that dead connections are noticed; and the visitor is
checked again."""

SEND_S = 30.0
"""A viewer that has read nothing for so long is gone."""

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_LINE_ENDS = re.compile("\r\n|\r|\n")
_ID = re.compile(r'^<[a-z0-9-]+[^>]*? id="([^"]+)"')


class _Drawn(NamedTuple):
    version: int
    message: bytes


class _Shown:
    """One source with viewers: its last reading, and its fragments drawn for each kind of place."""

    def __init__(self, source: "Source") -> None:
        self.source = source
        self.viewers: set[Viewer] = set()
        self.seen: Any = None
        self.was_read = False
        self.drawn: dict[Place, dict[str, _Drawn]] = {}
        self.trouble = ""
        self.age = 0  #: how old the reading may be, s, if more than usual
        self.begun = 0.0  #: when it was read last
        self.wanted = asyncio.Event()  #: a new viewer waits for the next reading
        self.task: asyncio.Task[None] | None = None


class Viewer:
    """One stream: its sources, and up to which number it has seen them."""

    def __init__(self, place: "Place", topics: Sequence[str], seen: int) -> None:
        self.place = place
        self.topics = tuple(dict.fromkeys(topics))
        self.seen = seen
        self.waits_for: set[str] = set()
        """Topics to be read anew before it is sent any fragment. Fragments of the others would move
        its number past those of these topics that have not changed since."""
        self.notice: str | None = None
        self.age = 0
        self.ended = ""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Wake the stream: there may be something to send."""
        self._woken.set()

    def end(self, why: str) -> None:
        """Send only the end from now on."""
        self.ended = self.ended or why
        self.wake()

    async def wait(self, seconds: float) -> bool:
        """Wait until woken (True) or so many seconds have passed (False)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        woken = self._woken.is_set()
        self._woken.clear()
        return woken


class Live:
    """All streams of one board. `reader` reads what they show."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._shown: dict[str, _Shown] = {}
        self._viewers: set[Viewer] = set()
        self._budget = Budget()
        self._epoch = secrets.token_hex(4)
        self._version = 0

    def __len__(self) -> int:
        return len(self._viewers)

    def place_after(self, last_event_id: str) -> int:
        """The last number that a returning viewer has seen; 0 if another process sent the
        number."""
        epoch, _, number = last_event_id.partition(".")
        return int(number) if epoch == self._epoch and number.isdecimal() else 0

    def join(self, place: "Place", sources: "dict[str, Source]", seen: int = 0) -> Viewer:
        """Add a viewer of sources, by topic. Raises `Refused` if there are as many viewers as
        allowed."""
        if len(self._viewers) >= MOST_STREAMS:
            raise Refused(503, "Too many look", f"{MOST_STREAMS:,} pages are open; close some.")
        viewer = Viewer(place, list(sources), seen)
        self._viewers.add(viewer)
        for topic, source in sources.items():
            shown = self._shown.get(topic)
            if shown is None:
                shown = self._shown[topic] = _Shown(source)
            shown.viewers.add(viewer)
            if shown.task is None:
                shown.task = asyncio.ensure_future(self._keep(topic, shown))
            elif shown.begun + shown.source.every < asyncio.get_running_loop().time():
                viewer.waits_for.add(topic)  # its page may be newer than the last reading
                shown.wanted.set()
            else:
                shown.wanted.set()
                if shown.was_read and place not in shown.drawn:
                    self._draw(shown, place)
        viewer.wake()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer. A source without viewers is read no longer."""
        self._viewers.discard(viewer)
        for topic in viewer.topics:
            shown = self._shown.get(topic)
            if shown is None:
                continue
            shown.viewers.discard(viewer)
            if not shown.viewers:
                del self._shown[topic]
                self._budget.forget(topic)
                if shown.task is not None:
                    shown.task.cancel()
            elif not any(other.place == viewer.place for other in shown.viewers):
                shown.drawn.pop(viewer.place, None)

    def end_all(self, why: str) -> None:
        """End every stream in good order."""
        for viewer in self._viewers:
            viewer.end(why)

    async def _keep(self, topic: str, shown: _Shown) -> None:
        """Read and draw a source as long as it has viewers."""
        loop, source, failures = asyncio.get_running_loop(), shown.source, 0
        while True:
            shown.begun, busy = loop.time(), time.process_time()
            shown.wanted.clear()
            waiting = [viewer for viewer in shown.viewers if topic in viewer.waits_for]
            rest = 0.0
            try:
                shown.seen = await source.read(self._reader)
                shown.was_read = True
                for place in {viewer.place for viewer in shown.viewers}:
                    self._draw(shown, place)
                failures, shown.trouble = 0, ""
                cost = cost_of(loop.time() - shown.begun, time.process_time() - busy)
                rest = self._budget.rest(topic, source.every, source.rests, cost)
            except Refused as refused:
                shown.trouble = refused.detail
            except TaskNotFound as gone:
                shown.trouble = str(gone)  # deleted while it has viewers
            except (AndonError, OSError) as error:
                failures += 1
                shown.trouble = AWAY
                if failures == 1:
                    log.warning("The board cannot read %s: %s", topic, error)
            except Exception:
                failures += 1
                shown.trouble = "The board cannot show this any more; its log says why."
                if failures == 1:
                    log.exception("The board cannot show %s", topic)
            shown.age = told_age(source.every, rest)
            for viewer in waiting:
                viewer.waits_for.discard(topic)
            for viewer in shown.viewers:
                viewer.wake()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(rest, until_next(source.every, failures))):
                    await shown.wanted.wait()
            if shown.wanted.is_set():
                # Viewers that come one after the other share a reading, which takes nothing that is
                # remembered from before they came.
                await asyncio.sleep(shown.begun + source.every - loop.time())
                self._reader.forget()

    def _draw(self, shown: _Shown, place: "Place") -> None:
        drawn = shown.drawn.setdefault(place, {})
        for fragment in shown.source.draw(place, shown.seen):
            text = str(fragment)
            found = _ID.match(text)
            assert found is not None, f"a fragment without an id: {text[:80]}"
            message = _message("fragment", text)
            before = drawn.get(found[1])
            if before is None or before.message != message:
                self._version += 1
                drawn[found[1]] = _Drawn(self._version, message)

    def news(self, viewer: Viewer) -> Iterator[bytes]:
        """All that a viewer was not sent yet: the newest of each fragment, how old it may be, and
        the message."""
        shown = [self._shown[topic] for topic in viewer.topics if topic in self._shown]
        drawn = [
            fragment
            for one in shown
            for fragment in one.drawn.get(viewer.place, {}).values()
            if fragment.version > viewer.seen
        ]
        for one in sorted(() if viewer.waits_for else drawn):
            viewer.seen = one.version
            yield b"id: %s.%d\n%s" % (self._epoch.encode(), one.version, one.message)
        age = max((one.age for one in shown), default=0)
        if age != viewer.age:
            viewer.age = age
            yield _message("age", str(age))
        troubles = [one.trouble for one in shown if one.was_read or one.trouble]
        notice = next(filter(None, troubles), "") if troubles else viewer.notice
        if notice is not None and notice != viewer.notice:
            viewer.notice = notice
            yield _message("notice", notice) if notice else _message("well", "it goes on")


def _message(event: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(text))
    return f"event: {event}\n{lines}\n".encode("utf-8", "backslashreplace")


class Stream:
    """One stream over ASGI. `still_may` says whether its visitor may still see the sources."""

    def __init__(self, live: Live, viewer: Viewer, still_may: Any) -> None:
        self._live = live
        self._viewer = viewer
        self._still_may = still_may

    async def run(self, receive: "Receive", send: "Send") -> None:
        """Send news until the viewer is gone."""
        viewer = self._viewer
        gone = asyncio.ensure_future(_until_gone(receive))
        gone.add_done_callback(lambda _: viewer.end("gone"))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _send(send, b"retry: 1000\n\n")
            while not viewer.ended:
                news = b"".join(self._live.news(viewer))
                if news:
                    await _send(send, news)
                if not await viewer.wait(PING_S) and not viewer.ended:
                    await _send(send, b": still here\n\n")
                    if not await self._still_may():
                        viewer.end("refused")
            if viewer.ended != "gone":
                await _send(send, _message("end", viewer.ended))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            pass  # it reads nothing any more
        finally:
            gone.cancel()
            self._live.leave(viewer)
            await asyncio.gather(gone, return_exceptions=True)


async def _send(send: "Send", body: bytes) -> None:
    async with asyncio.timeout(SEND_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
