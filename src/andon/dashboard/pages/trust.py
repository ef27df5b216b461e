"""Draws tokens and the audit list: who may do what, and who did what."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.pages.parts import act, age, chip, count, section, table, task_link
from andon.dashboard.views.looks import line_of

if TYPE_CHECKING:
    from htpy import Node

    from andon.dashboard.pages.frame import Place
    from andon.dashboard.tokens import TokenRow
    from andon.model.audit import AuditRecord

_SIGNS = {"valid": ("✓", "good"), "expired": ("⌛", "off"), "revoked": ("⊘", "off")}


def tokens(place: "Place", rows: "Sequence[TokenRow]", now: int) -> Iterator["Node"]:
    """All tokens, and a form to make one."""
    yield h.h1["Tokens"]
    yield section(
        "Make one",
        h.div(".filters")[
            h.label[
                "name",
                h.input(type="text", name="name", form="act", maxlength="128", autocomplete="off"),
            ],
            h.label[
                "scopes, apart by spaces",
                h.input(
                    type="text", name="scopes", form="act", maxlength="4096", autocomplete="off",
                    placeholder="tasks:read:* queues:read:*",
                ),
            ],
            h.label[
                "days it lasts; none: for ever",
                h.input(type="text", name="days", form="act", inputmode="decimal", maxlength="8"),
            ],
            act(place, "/acts/token/create", "Make a token", looks="main"),
        ],
    )  # fmt: skip
    yield section(
        "All",
        table(
            "tokens",
            ["token", "name", "state", "scopes", "made", "ends", h.td],
            (
                h.tr(data_row="")[
                    h.th(".mono", scope="row")[one.id],
                    h.td[h.bdi[line_of(one.name, 128)]],
                    h.td[_state(one.state)],
                    h.td[[chip(scope) for scope in one.scopes[:30]]],
                    h.td[age(one.created_at, now)],
                    h.td[age(one.expires_at, now) if one.expires_at else "never"],
                    h.td(".end")[
                        one.state == "valid"
                        and act(
                            place, "/acts/token/revoke", "Revoke", name="token", value=one.id,
                            looks="danger", says=f"Revoke {one.name}",
                        )
                    ],
                ]
                for one in rows
            ),
            empty="There is none: this service is open on its own machine.",
            label="Tokens",
        ),
    )  # fmt: skip


def _state(name: str) -> "Node":
    sign, tone = _SIGNS.get(name, ("?", "off"))
    return h.span(f".state.{tone}")[h.span(".sign", aria_hidden="true")[sign], " ", name]


def made(place: "Place", text: str, row: "TokenRow") -> Iterator["Node"]:
    """A token that was just made; it is shown only once."""
    yield h.section("#made.message")[
        h.h1["The new token"],
        h.p["Copy it now: nobody can see it again."],
        h.pre(tabindex="0", role="region", aria_label="Token")[text],
        h.p(".dim")[h.bdi[line_of(row.name, 128)], " may: ", [chip(scope) for scope in row.scopes]],
        h.p[h.a(".button", href=place.to("/tokens"))["All tokens"]],
    ]


def audit(
    place: "Place", records: "Sequence[AuditRecord]", now: int, actor: str, *, in_all: int
) -> Iterator["Node"]:
    """The acts by hand, the newest first: so many of those that are kept."""
    more = in_all > len(records)
    yield h.div(".heading")[
        h.h1["Audit"],
        h.p(".dim")[
            "What was done by hand, the newest first",
            actor and [", by ", h.bdi[line_of(actor, 100)]],
        ],
        h.div(".tools")[
            actor and h.a(".button", href=place.to("/audit"))["Everybody"],
            more
            and h.a(".button", href=place.to("/audit", actor=actor, all="yes"))[
                f"All {in_all:,} that are kept"
            ],
        ],
    ]
    yield table(
        "audit",
        ["when", "who", "what", "to", "tasks", "details"],
        (
            h.tr(data_row="")[
                h.td[age(one.until, now)],
                h.th(scope="row")[
                    h.a(href=place.to("/audit", actor=one.actor))[h.bdi[line_of(one.actor, 100)]]
                    if one.actor
                    else h.span(".dim")["nobody said"]
                ],
                h.td[line_of(one.act, 60)],
                h.td[
                    task_link(place, one.subject)
                    if _is_task(one.act)
                    else h.bdi[line_of(one.subject, 120)]
                ],
                h.td[count(one.count)],
                h.td(".text.dim", title=line_of(one.detail))[h.bdi[line_of(one.detail)]],
            ]
            for one in records
        ),
        empty="Nothing was done by hand yet.",
        label="What was done by hand",
    )


def _is_task(act_name: str) -> bool:
    """Whether the act is on tasks; names of other acts have two words, such as
    `configure-queue`."""
    return act_name in {
        "cancel", "request-cancel", "schedule", "run-now", "reschedule", "reprioritise", "archive",
        "edit", "rerun", "delete",
    }  # fmt: skip
