"""Draws one task: its fields, its runs, its logs."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import htpy as h
import msgspec

from andon.dashboard.pages.changes import of_task
from andon.dashboard.pages.parts import (
    act,
    age,
    chip,
    duration,
    facts,
    moment,
    queue_link,
    section,
    state,
    table,
    task_link,
)
from andon.dashboard.views.acts import ONE
from andon.dashboard.views.bodies import Body
from andon.dashboard.views.looks import Shortened, line_of
from andon.dashboard.views.runs import RunAxis, RunBar
from andon.dashboard.views.task import ArtifactRow, EdgeView, ErrorView, LogView, TaskView
from andon.model.cleaning import clean
from andon.model.wording import plural, size_of

if TYPE_CHECKING:
    from htpy import Node, Renderable

    from andon.dashboard.pages.frame import Place

PROFILES = ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster")

_AXIS = 1000
_ROW = 22
_TOP = 18


def fragments(place: "Place", view: TaskView) -> Iterator["Renderable"]:
    """The live fragments of the page."""
    yield head(place, view)
    yield about(place, view)
    yield runs(view.runs)
    yield outcome(view)
    yield edges(place, view)
    yield moves(place, view)


def content(
    place: "Place", view: TaskView, log: "LogView", artifacts: Sequence[ArtifactRow]
) -> Iterator["Node"]:
    """The whole page."""
    top, known, axis, end, around, history = fragments(place, view)
    yield top
    yield known
    yield section("Runs", axis)
    yield end
    yield h.div(".two")[
        _body("Arguments", view.args, "arguments"),
        view.result is not None and _body("Result", view.result, "result"),
    ]
    yield of_task(place, view)
    yield section("Log", logs(place, log))
    if artifacts:
        yield section("Artifacts", artifact_table(place, view.id, artifacts))
    yield around
    yield history


def head(place: "Place", view: TaskView) -> "Renderable":
    """Its name, its state, and the acts possible now."""
    return h.header("#task-head")[
        h.p(".crumbs")[h.a(href=place.to("/tasks"))["Tasks"], " / ", queue_link(place, view.queue)],
        h.div(".heading")[
            h.h1[h.bdi[view.name], " ", h.span(".id.dim")[h.bdi[view.id]]],
            h.div(".tools")[_acts(place, view)],
        ],
        h.p[
            state(view.state, label=view.shown_as),
            view.note and h.span(".dim")[" · ", view.note],
            view.waits and h.span(".bad")[" · ⚠ ", view.waits],
        ],
        view.not_retried and h.p(".dim")[view.not_retried],
    ]


def _acts(place: "Place", view: TaskView) -> "Node":
    shown: list[Node] = []
    for name in view.can:
        one = ONE[name]
        if place.may(f"{one.scope}{view.queue}"):
            path = f"/acts/task/{name}"
            shown.append(act(place, path, one.label, name="task", value=view.id, looks=one.look))
    if view.is_schedule:
        shown.append(h.a(".button", href=place.named("schedules", view.id))["Schedule"])
    return shown


def about(place: "Place", view: TaskView) -> "Renderable":
    """Names and values."""
    return h.div("#task-facts")[
        facts(
            [
                ("queue", queue_link(place, view.queue)),
                (
                    "type",
                    h.a(href=place.to("/tasks", name=view.name))[
                        h.bdi[view.name], f" v{view.version}" if view.version else ""
                    ],
                ),
                ("priority", view.priority or None),
                ("tries", f"{view.tries} of {view.max_tries}"),
                ("fence", view.fence or None),
                ("worker", view.worker and h.span(".mono")[h.bdi[line_of(view.worker, 80)]]),
                ("progress", _progress(view)),
                *(
                    (name, [age(at, view.now), " ", h.span(".dim")[moment(at)]])
                    for name, at in view.times
                    if at is not None
                ),
                ("key", _searched(place, "key", view.key)),
                ("unique key", view.unique_key and h.bdi[line_of(view.unique_key)]),
                ("group", _group(place, view.group)),
                (
                    "tags",
                    view.tags
                    and [
                        [chip(tag, place.to("/tasks", tag=tag)) for tag in view.tags],
                        view.more_tags > 0 and h.span(".dim")[f"and {view.more_tags:,} more"],
                    ],
                ),
                (
                    "headers",
                    view.headers
                    and [h.div[h.code[h.bdi[n]], " ", h.bdi[v]] for n, v in view.headers[:50]],
                ),
                ("predecessor", view.predecessor and task_link(place, view.predecessor)),
                ("successor", view.successor and task_link(place, view.successor)),
                ("follows up", view.bearer and task_link(place, view.bearer)),
                ("owes", view.owes and [[task_link(place, one), " "] for one in view.owes[:20]]),
            ]
        )
    ]


def _progress(view: TaskView) -> str:
    if not view.progress and not view.progress_message:
        return ""
    return f"{view.progress or 0} % {view.progress_message}"


def _searched(place: "Place", name: str, value: str) -> "Node":
    return value and h.a(href=place.to("/tasks", **{name: value}))[h.bdi[line_of(value)]]


def _group(place: "Place", group: str) -> "Node":
    return group and [
        _searched(place, "group", group),
        " ",
        h.a(".dim", href=place.named("flows", group))["as a flow"],
    ]


def runs(axis: RunAxis) -> "Renderable":
    """Its runs on an axis of time: when each could begin, when it did, when it ended."""
    if not axis.bars:
        return h.div("#task-runs.empty")[h.p["It has not been ready to run yet."]]
    height = _TOP + _ROW * len(axis.bars)
    return h.div("#task-runs.card.sideways", tabindex="0", role="region", aria_label="Runs")[
        axis.dropped > 0 and h.p(".dim")[f"{plural(axis.dropped, 'older run')} not kept."],
        h.svg(
            ".axis-of-runs", viewBox=f"0 0 {_AXIS} {height}", role="img",
            aria_label=f"{plural(len(axis.bars), 'run')} in "
            f"{duration(axis.ends_at - axis.begins_at)}",
        )[
            h.line(".rule", x1="0", y1="14.5", x2=str(_AXIS), y2="14.5"),
            h.text(".tick", x="0", y="10")["0"],
            h.text(".tick", x=str(_AXIS), y="10", text_anchor="end")[
                f"+{duration(axis.ends_at - axis.begins_at)}"
            ],
            (_bar(bar, place) for place, bar in enumerate(axis.bars)),
        ],
        h.ol(".unseen")[(h.li[_said(bar)] for bar in axis.bars)],
    ]  # fmt: skip


def _bar(bar: RunBar, place: int) -> "Renderable":
    top = _TOP + _ROW * place
    left, start, end = (round(_AXIS * part, 1) for part in (bar.left, bar.start, bar.end))
    said = _said(bar)
    at_the_left = end < 0.6 * _AXIS
    x = end + 6 if at_the_left else left - 6
    if not at_the_left and left < 0.4 * _AXIS:
        x, at_the_left = 6, True
    return h.g[
        h.title[said],
        h.rect(".wait", x=str(left), y=str(top + 9), width=str(max(0, start - left)), height="3"),
        bar.claimed_at is not None
        and h.rect(
            class_=["run", bar.tone],
            x=str(start),
            y=str(top + 3),
            width=str(max(3, end - start)),
            height="15",
            rx="3",
        ),
        h.text(x=str(x), y=str(top + 14), text_anchor="start" if at_the_left else "end")[said],
    ]


def _said(bar: RunBar) -> str:
    ended = bar.ended or ("runs" if bar.claimed_at is not None else "waits")
    took = f", {duration(bar.took_ms)}" if bar.took_ms is not None else ""
    worker = f", {line_of(bar.worker, 40)}" if bar.worker else ""
    return f"#{bar.number} {bar.opened} → {ended}{took}{worker}"


def outcome(view: TaskView) -> "Renderable":
    """The error, if there was one."""
    if view.error is None:
        return h.div("#task-error", hidden=True)
    error = view.error
    return h.section("#task-error")[
        h.div(".heading")[h.h2["Error"], h.span(".mono.bad")[h.bdi[error.type or error.code]]],
        h.pre(".bad", tabindex="0", role="region", aria_label="Error")[
            h.bdi[_whole(error.message)]
        ],
        error.traceback.text and _traceback(error),
    ]


def _traceback(error: ErrorView) -> "Node":
    return [
        h.h3(".unseen")["Traceback"],
        h.pre("#traceback", tabindex="0", role="region", aria_label="Traceback")[
            _whole(error.traceback)
        ],
        error.whole.text != error.traceback.text
        and h.details("#traceback-whole")[
            h.summary["With Andon's own frames"],
            h.pre(tabindex="0", role="region", aria_label="Whole traceback")[_whole(error.whole)],
        ],
    ]


def _whole(text: Shortened) -> str:
    return f"{text.text}\n… {text.more:,} more characters" if text.more else text.text


def _body(title: str, body: Body | None, name: str) -> "Node":
    if body is None:
        return None
    notes = [size_of(body.size)]
    if body.hidden:
        notes.append(f"{plural(body.hidden, 'value')} hidden")
    if not body.is_json:
        notes.append("not shown: too large" if not body.text else "not JSON")
    if body.more:
        notes.append(f"{body.more:,} more characters")
    return section(
        title,
        body.text
        and h.pre(f"#{name}", tabindex="0", role="region", aria_label=title)[h.bdi[body.text]],
        tools=h.span(".dim")[", ".join(notes)],
    )


def edges(place: "Place", view: TaskView) -> "Renderable":
    """Its dependencies and its dependents."""
    if not view.depends_on and not view.needed_by:
        return h.div("#task-edges", hidden=True)
    return h.div("#task-edges.two")[
        bool(view.depends_on)
        and section(
            "Waits for",
            _edges(place, "depends-on", view.depends_on),
            tools=h.span(".dim")[
                view.needs and f"needs {view.needs} ",
                view.more_depends_on > 0 and f"{view.more_depends_on:,} more",
            ],
        ),
        section("Waited for by", _edges(place, "needed-by", view.needed_by))
        if view.needed_by
        else None,
    ]


def _edges(place: "Place", name: str, found: Sequence[EdgeView]) -> "Renderable":
    return table(
        name,
        ["task", "name", "state"],
        (
            h.tr(data_row="")[
                h.th(scope="row")[task_link(place, one.id)],
                h.td[h.bdi[one.name]],
                h.td[state(one.state)],
            ]
            for one in found
        ),
        label=name.replace("-", " "),
    )


def moves(place: "Place", view: TaskView) -> "Renderable":
    """Every move, in Andon's words or in those of another system."""
    here = place.task(view.id)
    tabs = h.nav(".tabs", aria_label="Moves as")[
        (
            h.a(
                href=here if name == "native" else f"{here}?as={name}",
                aria_current="true" if name == view.profile else None,
            )[name]
            for name in PROFILES
        )
    ]
    dropped = view.dropped_moves
    return h.section("#task-moves")[
        h.div(".heading")[h.h2["Moves"], tabs],
        dropped > 0 and h.p(".dim")[f"{plural(dropped, 'older move')} not shown."],
        _native(view) if view.profile == "native" else _foreign(view),
    ]


def _native(view: TaskView) -> "Renderable":
    return table(
        "moves",
        ["at", "after", "event", "from", "to", "reason", "run", "by"],
        (
            h.tr[
                h.td[moment(one.at)],
                h.td(".num")["" if one.since is None else f"+{duration(one.since)}"],
                h.td[one.event],
                h.td[one.source and state(one.source)],
                h.td[state(one.target)],
                h.td[one.reason, one.error and h.span(".bad")[" ", h.bdi[one.error]]],
                h.td(".num")["" if one.run is None else f"#{one.run}"],
                h.td[h.bdi[one.actor] if one.actor else h.bdi(".mono")[line_of(one.worker, 60)]],
            ]
            for one in view.moves
        ),
        empty="It has no moves.",
        label="Moves",
    )


def _foreign(view: TaskView) -> "Renderable":
    names = list(dict.fromkeys(name for move in view.foreign for name in move))
    return table(
        "moves",
        names,
        (h.tr[(h.td[h.bdi[_plain(move.get(name))]] for name in names)] for move in view.foreign),
        empty=f"{view.profile} shows no moves of such a task.",
        label=f"Moves as {view.profile} shows them",
    )


def _plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return line_of(value or "")
    return line_of(msgspec.json.encode(value).decode())


def logs(place: "Place", view: LogView) -> "Renderable":
    """The newest lines of a run's log."""
    if view.missing:
        return h.div("#log.empty")[h.p[f"Logs are not kept: {line_of(view.missing, 300)}"]]
    if view.run is None or not view.lines:
        return h.div("#log.empty")[h.p["Nothing is logged yet."]]
    here = place.task(view.task)
    return h.div("#log")[
        len(view.runs) > 1
        and h.nav(".tabs", aria_label="Logs of runs")[
            (
                h.a(href=f"{here}?run={run}", aria_current="true" if run == view.run else None)[
                    f"run {run}"
                ]
                for run in view.runs[-20:]
            )
        ],
        view.more and h.p(".dim")["Only the newest lines; all of them: andon logs ", view.task],
        h.pre("#log-lines.log", tabindex="0", role="log", aria_label="Log", aria_live="off")[
            (
                [
                    h.span(".dim")[moment(at)],
                    " ",
                    h.span(class_=["level", {"bad": level in ("error", "critical")}])[level],
                    h.bdi[clean(text[:4_000])],
                    "\n",
                ]
                for at, level, text in view.lines
            )
        ],
    ]


def artifact_table(place: "Place", task_id: str, found: Sequence[ArtifactRow]) -> "Renderable":
    """Files that runs left behind."""
    return table(
        "artifacts",
        ["name", "run", "size", "type", "made"],
        (
            h.tr(data_row="")[
                h.th(scope="row")[
                    h.a(
                        href=_artifact(place, task_id, one),
                        download="",
                    )[h.bdi[line_of(one.name, 128)]]
                ],
                h.td(".num")[f"#{one.run}"],
                h.td(".num")[size_of(one.size)],
                h.td[one.content_type],
                h.td[moment(one.created_at)],
            ]
            for one in found
        ),
        label="Artifacts",
    )


def _artifact(place: "Place", task_id: str, one: ArtifactRow) -> str:
    return f"{place.task(task_id)}/artifacts/{one.run}/{quote(one.name, safe='')}"
