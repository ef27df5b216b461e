"""Draws the frame around each page: its head, navigation, search, and the form that sends acts.

Every act of a page is a button of one form, which has the token of the session: fragments, which
are drawn once for all viewers, have buttons of that form and no token.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import htpy as h
import msgspec

from andon.dashboard.assets import assets
from andon.dashboard.views.looks import line_of, words_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.access import Visitor

PAGES = (
    ("/", "Andon", "queues:read:"),
    ("/tasks", "Tasks", "tasks:read:"),
    ("/dead-letters", "Dead letters", "tasks:read:"),
    ("/queues", "Queues", "queues:read:"),
    ("/workers", "Workers", "workers:read"),
    ("/schedules", "Schedules", "tasks:read:"),
    ("/flows", "Flows", "tasks:read:"),
    ("/alerts", "Alerts", "admin:alerts"),
    ("/tokens", "Tokens", "admin:tokens"),
    ("/audit", "Audit", "admin:audit"),
    ("/doctor", "Doctor", "admin:storage"),
)
"""The pages of the navigation: path, name, and the scope without which it is not shown."""


class Place(msgspec.Struct, frozen=True):
    """The place and the visitor for which something is drawn."""

    root: str  #: path at which the board is mounted; empty at the top
    visitor: "Visitor"
    has_tokens: bool = False  #: whether there are tokens to show: those of a service
    form_token: str = ""
    """Token against forged requests, for forms of this visitor; empty in a live fragment, which all
    viewers share."""

    def to(self, path: str, **query: object) -> str:
        """A link within the board. Fields of the query that are None or empty are left out."""
        given = [(name, value) for name, value in query.items() if value not in (None, "")]
        return f"{self.root}{path}{'?' + urlencode(given) if given else ''}"

    def task(self, task_id: str) -> str:
        """A link to a task."""
        return f"{self.root}/tasks/{quote(task_id, safe='')}"

    def named(self, kind: str, name: str) -> str:
        """A link to a queue, flow or schedule: `kind` is the first part of its path."""
        return f"{self.root}/{kind}/{quote(name, safe='')}"

    def may(self, scope: str) -> bool:
        """Whether the visitor may do this."""
        return self.visitor.may(scope)


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What a page needs besides its content."""

    place: Place
    title: str
    path: str  #: path of the page, for the navigation and to return to
    here: str = ""  #: the page with its query
    form_token: str = ""
    said: str = ""  #: the outcome of the last act
    topics: Sequence[str] = ()  #: its live topics
    store: str = ""  #: the store's location, without secrets
    notice: str = ""  #: what is wrong at the moment
    can_leave: bool = False  #: the visitor logged in with a token


def page(frame: Frame, *content: "Node") -> "Renderable":
    """A whole page."""
    place, files = frame.place, assets()
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.title[f"{words_of(frame.title)} · Andon"],
            h.link(rel="icon", href=place.root + files["icon.svg"].path),
            h.link(rel="stylesheet", href=place.root + files["board.css"].path),
            h.script(src=place.root + files["board.js"].path, type="module"),
        ],
        h.body(data_live=_stream(frame))[
            h.a(".skip", href="#main")["Skip to the content"],
            _top(frame),
            h.div("#notice", role="status", aria_live="polite")[
                frame.notice and h.p(".notice.bad")["⚠ ", frame.notice]
            ],
            frame.said and h.p(".said", role="status")[line_of(frame.said, 500)],
            h.main("#main", tabindex="-1")[
                h.form("#act", method="post", action=place.to("/acts"), hidden=True)[
                    h.input(type="hidden", name="form-token", value=frame.form_token),
                    h.input(type="hidden", name="back", value=frame.here or frame.path),
                ],
                content,
            ],
            _foot(frame),
        ],
    ]


def _stream(frame: Frame) -> str | None:
    if not frame.topics:
        return None
    query = urlencode([("topic", topic) for topic in frame.topics])
    return f"{frame.place.root}/live?{query}"


def _top(frame: Frame) -> "Renderable":
    place = frame.place
    return h.header(".top")[
        h.a(".brand", href=place.to("/"), aria_label="Andon, the board")[
            h.span(aria_hidden="true")["◉"], " Andon"
        ],
        h.nav(aria_label="Pages")[
            h.ul[
                (
                    h.li[
                        h.a(
                            href=place.to(path),
                            aria_current="page" if _is_here(path, frame.path) else None,
                        )[name]
                    ]
                    for path, name, scope in PAGES
                    if _is_shown(place, path, scope)
                )
            ]
        ],
        h.form(".search", role="search", action=place.to("/search"), method="get")[
            h.label(".unseen", for_="search")["Search"],
            h.input(
                "#search",
                type="search",
                name="q",
                placeholder="id, name, key, tag, group",
                autocomplete="off",
                spellcheck="false",
                maxlength="256",
            ),
            h.kbd(".key", aria_hidden="true")["/"],
        ],
        h.div(".who")[
            h.span[line_of(place.visitor.name, 60)],
            frame.can_leave
            and h.form(method="post", action=place.to("/leave"))[
                h.input(type="hidden", name="form-token", value=frame.form_token),
                h.button(".plain", type="submit")["Leave"],
            ],
        ],
    ]


def _is_shown(place: Place, path: str, scope: str) -> bool:
    if path == "/tokens" and not place.has_tokens:
        return False
    return place.visitor.may_some(scope) if scope.endswith(":") else place.may(scope)


def _is_here(path: str, here: str) -> bool:
    return here == path or (path != "/" and here.startswith(path + "/"))


def _foot(frame: Frame) -> "Renderable":
    return h.footer[
        h.span(title="Where the tasks are")[frame.store and line_of(frame.store, 200)],
        h.span("#pulse", data_state="off")[
            h.span(".live-only")["live"], h.noscript["reload to see what is new"]
        ],
        h.span(".keys")[
            h.kbd["/"], " search  ", h.kbd["j"], h.kbd["k"], " move  ", h.kbd["Enter"], " open  ",
            h.kbd["x"], " choose",
        ],
    ]  # fmt: skip


Draw = Callable[[Place], "Node"]
