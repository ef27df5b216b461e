"""Pages that say something instead: a refusal, a question for a token."""

from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.assets import assets
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Renderable

    from andon.dashboard.pages.frame import Place


def refusal(title: str, detail: str, *, away: bool = False) -> "Renderable":
    """Why there is nothing else; `away`: only for now, and the script loads it anew then."""
    return h.section("#refusal.message", data_away="" if away else None)[
        h.h1[title], h.p[line_of(detail, 1_000)]
    ]


def nothing_found(place: "Place", text: str) -> "Renderable":
    """That a short look found nothing, with ways to look on."""
    return h.section("#refusal.message")[
        h.h1["Nothing found"],
        h.p[
            "No task was found that has ",
            h.bdi[repr(line_of(text, 100))],
            " as its id, name, key, group or tag. A name that has not failed, and on some stores "
            "how an id begins, was looked for among the newest tasks only.",
        ],
        h.p(".acts")[
            h.a(".button", href=place.to("/tasks", name=text))["Look through all for the name"],
            h.a(".button", href=place.to("/tasks", id=text))["Look through all for ids"],
        ],
    ]


def asks_for_token(root: str, form_token: str, back: str, wrong: str) -> "Renderable":
    """The door: a form that takes a token."""
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
