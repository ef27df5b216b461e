"""Draws pages with a message only: a refusal, the form that asks for a token."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import htpy as h

from andon.dashboard.assets import assets
from andon.dashboard.views.looks import line_of
from andon.dashboard.views.search import Sought

if TYPE_CHECKING:
    from htpy import Renderable

    from andon.dashboard.pages.frame import Place


def refusal(title: str, detail: str, *, away: bool = False) -> "Renderable":
    """Why the page cannot be shown; `away`: the store does not answer now, and the script loads the
    page again when it does."""
    return h.section("#refusal.message", data_away="" if away else None)[
        h.h1[title], h.p[line_of(detail, 1_000)]
    ]


def sought(place: "Place", view: Sought, *, goes_on: bool = True) -> "Renderable":
    """The outcome of a search that has led to no list: nothing found, and ways to go on; or what
    was found since the page is open. `goes_on`: the search goes on while the page is open."""
    text = h.bdi[repr(line_of(view.text, 100))]
    if view.asked is not None:
        href = f"{place.to('/tasks')}?{urlencode(view.asked.pairs)}"
        return h.section("#sought.message")[
            h.h1["Found"], h.p["Tasks that have ", text, ": ", h.a(href=href)[view.asked.words]]
        ]
    if view.is_over:
        return h.section("#sought.message")[
            h.h1["Nothing found"],
            h.p["No task has ", text, " as its id, name, key, group or tag, and no id begins so."],
        ]
    return h.section("#sought.message")[
        h.h1["Nothing found so far"],
        h.p[
            "No task has ", text, " as its id, key, group or tag, and none of that name has "
            "failed. Other names, and on some stores how an id begins, were looked for among the "
            "newest tasks only.",
        ],
        goes_on and h.p(".live-only")["The search goes on while this page is open."],
        h.p(".acts")[
            h.a(".button", href=place.to("/tasks", name=view.text))[
                "Look through all for the name"
            ],
            h.a(".button", href=place.to("/tasks", id=view.text))["Look through all for ids"],
        ],
    ]  # fmt: skip


def asks_for_token(root: str, form_token: str, back: str, wrong: str) -> "Renderable":
    """The login page: a form that takes a token."""
    files = assets()
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.title["Come in · Andon"],
            h.link(rel="icon", href=root + files["icon.svg"].path),
            h.link(rel="stylesheet", href=root + files["board.css"].path),
        ],
        h.body[
            h.main("#main.door")[
                h.h1[h.span(aria_hidden="true")["◉ "], "Andon"],
                wrong and h.p(".notice.bad", role="alert")["⚠ ", line_of(wrong, 400)],
                h.form(method="post", action=f"{root}/enter")[
                    h.input(type="hidden", name="form-token", value=form_token),
                    h.input(type="hidden", name="back", value=back),
                    h.label(for_="token")["Token"],
                    h.input(
                        "#token",
                        type="password",
                        name="token",
                        autocomplete="current-password",
                        required=True,
                        autofocus=True,
                        spellcheck="false",
                    ),
                    h.button(".main", type="submit")["Come in"],
                ],
                h.p(".dim")[
                    "Make one with ",
                    h.code["andon token create NAME --scope 'tasks:read:*'"],
                    "; what it allows is what you see here.",
                ],
            ]
        ],
    ]
