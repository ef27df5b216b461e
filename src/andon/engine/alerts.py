"""Alert rules and targets: read, set, removed and applied, each by compare and set of one setting;
shown without their secrets; tested.

What a task delivers is sealed with the store's key, so that a client that may submit to the queue
cannot make Andon send or sign something else.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from andon.contract.notes import NoteName, PutNote
from andon.contract.store import Store
from andon.engine.alert_requests import AlertPreview, Put
from andon.engine.audit import Audit
from andon.engine.base import Submission, Submitted
from andon.engine.control import MOST_ATTEMPTS
from andon.lifecycle.alerts.checking import (
    check_alert_name,
    check_book,
    condition_digest,
    rule_fields,
    rule_from,
    target_from,
)
from andon.lifecycle.alerts.telling import delivery_id, seal_of
from andon.model.alerts import (
    ALERT_NOTES,
    ALERTS_QUEUE,
    LEFT_NOTES,
    AlertBook,
    AlertsShown,
    AlertState,
    Notice,
    Rule,
    RuleShown,
    RuleState,
    Target,
    TargetShown,
)
from andon.model.errors import AndonError, ConfigurationError, StoreUnavailable
from andon.model.settings import ALERTS_SETTING

log = logging.getLogger("andon.engine")

STATE_NOTE = NoteName(ALERT_NOTES, "", "state")
"""The setting that holds how the rules stand."""

_OPTIONS: dict[str, Any] = {
    "max_retries": 10,
    "retry_delay": 10.0,
    "backoff": "exponential_jitter",
    "max_retry_delay": 600.0,
    "timeout": 60.0,
    "retention": {"completed": 7 * 86_400.0},
}
_OPTIONS_OF_TEST = {**_OPTIONS, "max_retries": 0, "dead_letter": "none"}
"""A test is tried once and leaves no dead letter: its caller sees the outcome, and can test
again."""

_DEADLINE_S = 86_400.0
"""A notice that is a day old is not sent."""

Submit = Callable[[Sequence[Submission]], Awaitable[list[Submitted]]]
_Change = Callable[[AlertBook], AlertBook]

_encode_book = msgspec.json.Encoder(order="sorted").encode
_decode_book = msgspec.json.Decoder(AlertBook).decode
_decode_state = msgspec.msgpack.Decoder(AlertState).decode


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a task that sends a notice to a target."""

    target: str
    notice: Notice
    seal: str


class Alerts:
    """The alert rules and targets of one store."""

    def __init__(self, store: Store, audit: Audit, submit: Submit) -> None:
        self._store = store
        self._audit = audit
        self._submit = submit
        self._preview: Callable[[AlertBook], Awaitable[AlertPreview]] | None = None

    def previewing_by(self, preview: Callable[[AlertBook], Awaitable[AlertPreview]]) -> None:
        """Evaluates the rules without writing anything."""
        self._preview = preview

    # --- reading ---

    async def book(self) -> AlertBook:
        """All rules and targets, with their secrets."""
        return (await self._read())[0]

    async def state(self) -> tuple[AlertState, bytes | None]:
        """How the rules stand, and the bytes of it. What does not decode begins anew."""
        [value] = await self._store.notes([STATE_NOTE])
        if value is None:
            return AlertState(), None
        try:
            return _decode_state(value), value
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("What is kept of alerts is damaged, and begins anew: %s", error)
            return AlertState(), value

    async def shown(self) -> AlertsShown:
        """All rules and targets without secrets, and how the rules stand."""
        book = await self.book()
        state, _ = await self.state()
        return shown_of(book, state)

    async def preview(self) -> AlertPreview:
        """What a look would find now."""
        assert self._preview is not None
        return await self._preview(await self.book())

    # --- changing ---

    async def put_rule(self, name: str, fields: Mapping[str, Any], how: Put = "set") -> RuleShown:
        """Make or change a rule."""

        def changed(book: AlertBook) -> AlertBook:
            before = book.rules.get(name)
            if how == "add" and before is not None:
                raise ConfigurationError(f"There is an alert rule {name!r}; edit that one.")
            if how == "edit" and before is None:
                raise _no_rule(name, book)
            old = rule_fields(before) if how == "edit" and before is not None else {}
            rule = rule_from(name, _edited(old, fields))
            return replace(book, rules={**book.rules, name: rule})

        check_alert_name(name, "rule")
        book = await self._change(changed, f"{how}-alert-rule", name, dict(fields))
        state, _ = await self.state()
        return _rule_shown(name, book.rules[name], state)

    async def remove_rule(self, name: str) -> bool:
        """Delete a rule."""
        if name not in (await self.book()).rules:
            return False

        def changed(book: AlertBook) -> AlertBook:
            return replace(book, rules=_without(book.rules, name))

        await self._change(changed, "remove-alert-rule", name, {})
        return True

    async def put_target(
        self, name: str, fields: Mapping[str, Any], *, from_afar: bool = False
    ) -> TargetShown:
        """Make or change a target. `from_afar`: refuse commands, which would run on another machine
        than the caller's."""
        given = {one: value for one, value in fields.items() if value is not None and value != ""}

        def changed(book: AlertBook) -> AlertBook:
            before = book.targets.get(name)
            how = given.get("how", None if before is None else before.how)
            target = target_from(name, {**given, "how": how}, before)
            after = replace(book, targets={**book.targets, name: target})
            _check_commands(book, after, from_afar=from_afar)
            return after

        check_alert_name(name, "target")
        told = {"how": given.get("how")}
        book = await self._change(changed, "set-alert-target", name, told)
        return target_shown(name, book.targets[name])

    async def remove_target(self, name: str) -> bool:
        """Delete a target."""
        book = await self.book()
        if name not in book.targets:
            return False

        def changed(book: AlertBook) -> AlertBook:
            users = [one for one, rule in book.rules.items() if name in rule.targets]
            if users:
                raise ConfigurationError(
                    f"Alert target {name!r} is told by the rule {users[0]!r}. Change that first: "
                    f"andon alerts edit {users[0]} --to ..."
                )
            return replace(book, targets=_without(book.targets, name))

        changed(book)
        await self._change(changed, "remove-alert-target", name, {})
        return True

    async def apply(
        self, document: Mapping[str, Any], *, dry_run: bool = False, from_afar: bool = False
    ) -> list[str]:
        """Make rules and targets equal to a document."""

        def changed(book: AlertBook) -> AlertBook:
            after = replace(applied(book, document), key=book.key)
            _check_commands(book, after, from_afar=from_afar)
            return after

        before = await self.book()
        wanted = changed(before)
        check_book(wanted)
        changes = _changes(before, wanted)
        if changes and not dry_run:
            await self._change(changed, "apply-alerts", "alerts", {"changes": len(changes)})
        return changes

    async def _change(
        self, change: _Change, act: str, subject: str, detail: dict[str, Any]
    ) -> AlertBook:
        is_listed = False
        for _ in range(MOST_ATTEMPTS):
            book, stored = await self._read()
            after = change(book)
            check_book(after)
            if after == book:
                return book
            if not is_listed:
                await self._audit.asked(act, subject, **{k: _plain(v) for k, v in detail.items()})
                is_listed = True
            if not after.key:
                after = replace(after, key=secrets.token_hex(32))
            if await self._store.put_setting(ALERTS_SETTING, _encode_book(after), expect=stored):
                return after
        raise StoreUnavailable("The alerts are being changed by many at once; try again.")

    async def _read(self) -> tuple[AlertBook, bytes | None]:
        stored = await self._store.setting(ALERTS_SETTING)
        if not stored:
            return AlertBook(), stored
        try:
            return _decode_book(stored), stored
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"The store's setting {ALERTS_SETTING!r} is damaged: {error}."
            ) from error

    # --- telling ---

    async def test(self, target: str) -> str:
        """Send a test notice to a target. Returns the id of the task that sends it."""
        book = await self.book()
        if target not in book.targets:
            raise _no_target(target, book)
        notice = Notice(
            key=f"test:{secrets.token_hex(8)}",
            happened="test",
            rule=target,
            when="test",
            at=self._store.now(),
            subjects=(),
            targets=(target,),
        )
        await self._audit.asked("test-alert-target", target)
        submission = submission_of(book, notice, target)
        [outcome] = await self._submit([submission])
        if outcome.error is not None:
            raise outcome.error
        return submission.id

    async def submit(
        self, book: AlertBook, wanted: Sequence[tuple[Notice, str]]
    ) -> list[Submitted]:
        """Submit the tasks that deliver notices, one for each target. Repeating it is safe."""
        return await self._submit([submission_of(book, notice, one) for notice, one in wanted])

    async def left(self, worker: str) -> None:
        """Note that a worker has shut down in good order, if a rule asks for workers that did not.
        Never raises."""
        try:
            book = await self.book()
            if not any(rule.when == "lost-worker" for rule in book.rules.values()):
                return
            value = str(self._store.now()).encode()
            name = NoteName(LEFT_NOTES, "", worker)
            [before] = await self._store.notes([name])  # of one that had the same id
            await self._store.put_notes([PutNote(name, value, before)])
        except (AndonError, OSError) as error:
            log.info("It is not noted that worker %s has left: %s", worker, error)


def submission_of(book: AlertBook, notice: Notice, target: str) -> Submission:
    """The task that sends a notice to a target. It names the target, and has no secret of it."""
    told = replace(notice, targets=())
    how = book.targets[target].how
    delivery = Delivery(target=target, notice=told, seal=seal_of(book.key, told, target))
    return Submission(
        id=delivery_id(book.key, notice, target),
        name=task_name(how),
        queue=ALERTS_QUEUE,
        args=msgspec.json.encode({"delivery": delivery}),
        key=target,
        deadline_in=_DEADLINE_S,
        options=_OPTIONS_OF_TEST if notice.happened == "test" else _OPTIONS,
        profile="native",
    )


def task_name(how: str) -> str:
    """The task type that sends notices to targets of this kind."""
    return f"andon.alert.{how}"


def applied(book: AlertBook, document: Mapping[str, Any]) -> AlertBook:
    """The rules and targets that a document says, with the secrets that it leaves out. Raises
    `ConfigurationError`."""
    for part in document:
        if part not in ("rules", "targets"):
            raise ConfigurationError(f"Alerts have rules and targets, not {part!r}.")
    targets = {
        name: target_from(name, fields, book.targets.get(name))
        for name, fields in _tables(document, "targets").items()
    }
    rules = {name: rule_from(name, of) for name, of in _tables(document, "rules").items()}
    return AlertBook(key=book.key, rules=rules, targets=targets)


def _tables(document: Mapping[str, Any], part: str) -> dict[str, dict[str, Any]]:
    try:
        return msgspec.convert(document.get(part, {}), dict[str, dict[str, Any]])
    except msgspec.ValidationError:
        raise ConfigurationError(f"Alerts: {part} are tables by name, as [{part}.NAME].") from None


def _edited(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {**before, **{name: value for name, value in given.items() if value is not None}}


def _check_commands(before: AlertBook, after: AlertBook, *, from_afar: bool) -> None:
    if not from_afar:
        return
    for name, target in after.targets.items():
        if target.how == "command" and before.targets.get(name) != target:
            raise ConfigurationError(
                f"Alert target {name!r}: a command runs on the machine of the service, so only the "
                "command line beside the store sets one: andon alerts target NAME --command ..., "
                "with the store's own URL."
            )


def _changes(before: AlertBook, after: AlertBook) -> list[str]:
    changes: list[str] = []
    for what, old, new in (
        ("target", before.targets, after.targets),
        ("rule", before.rules, after.rules),
    ):
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                does = "add" if name not in old else "remove" if name not in new else "change"
                changes.append(f"{does} {what} {name}")
    return changes


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _without(named: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in named.items() if one != name}


def _no_rule(name: str, book: AlertBook) -> ConfigurationError:
    there = ", ".join(sorted(book.rules)[:20]) or "none yet"
    return ConfigurationError(f"There is no alert rule {name[:128]!r}. There are: {there}.")


def _no_target(name: str, book: AlertBook) -> ConfigurationError:
    there = ", ".join(sorted(book.targets)[:20]) or "none yet"
    return ConfigurationError(f"There is no alert target {name[:128]!r}. There are: {there}.")


# --- showing ---


def shown_of(book: AlertBook, state: AlertState) -> AlertsShown:
    """What there is, without secrets."""
    return AlertsShown(
        rules=tuple(_rule_shown(name, rule, state) for name, rule in sorted(book.rules.items())),
        targets=tuple(target_shown(name, of) for name, of in sorted(book.targets.items())),
        looked_at=state.at or None,
        owed=len(state.owed),
    )


def _rule_shown(name: str, rule: Rule, state: AlertState) -> RuleShown:
    own = state.rules.get(name)
    if own is None or own.digest != condition_digest(rule):
        return RuleShown(name=name, rule=rule, state="new")
    subjects = sorted(own.subjects.items(), key=lambda one: (not one[1].fired, one[1].since))
    return RuleShown(
        name=name, rule=rule, state=_stands(own), subjects=tuple(subjects), more=own.more
    )


def _stands(own: RuleState) -> Any:
    if any(subject.fired for subject in own.subjects.values()):
        return "firing"
    return "waiting" if own.subjects else "quiet"


def target_shown(name: str, target: Target) -> TargetShown:
    """A target without what is secret of it: of a URL only the host, of a command its program."""
    where = target.argv[0] if target.argv else ""
    if target.url:
        parts = urlsplit(target.url)
        port = f":{parts.port}" if parts.port else ""
        where = f"{parts.scheme}://{parts.hostname}{port}/…"
    return TargetShown(
        name=name,
        how=target.how,
        where=where,
        text_field=target.text_field if target.how == "chat" else "",
        has_secret=bool(target.secret),
    )
