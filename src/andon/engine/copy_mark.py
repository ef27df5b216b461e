"""The mark in a store that names the copy that fills it, from its beginning to its end.

It stands in the settings of the target. A copy that was cut short finds its own mark there and goes
on; another one into the same store is refused.
"""

import secrets

import msgspec

from andon.contract.store import Store
from andon.model.errors import ConfigurationError
from andon.model.fleet import StoreInfo
from andon.model.settings import COPY_SETTING

_encode = msgspec.json.encode


class CopyMark(msgspec.Struct, frozen=True, kw_only=True):
    """Which copy fills a store: that one may be resumed; any other into it needs `merge`."""

    source: str
    nonce: str
    began: int  #: ms UTC by the target's clock
    ended: int | None = None  #: when every task had arrived


async def begin_copy(source: Store, target: Store, *, merge: bool) -> CopyMark:
    """The mark of this copy, in the target; that of the one which is resumed, if it was there."""
    info = await source.info()
    name = _name_of(info)
    if source is target or (name == _name_of(await target.info()) and not info.in_memory):
        raise _same_store(name)
    held = await target.setting(COPY_SETTING)
    mark = msgspec.json.decode(held, type=CopyMark) if held else None
    if mark is None or mark.source != name or mark.ended is not None:
        if not merge:
            await _refuse_inhabited(target, name, again=mark is not None and mark.source == name)
        mark = CopyMark(source=name, nonce=secrets.token_hex(8), began=target.now())
        if not await target.put_setting(COPY_SETTING, _encode(mark), expect=held):
            raise ConfigurationError("Another copy into the same store has just begun. Try again.")
    if await source.setting(COPY_SETTING) == _encode(mark):  # one store under two names
        await target.put_setting(COPY_SETTING, held or b"", expect=_encode(mark))
        raise _same_store(name)
    return mark


async def end_copy(target: Store, mark: CopyMark) -> None:
    """Note that every task has arrived: anything copied here from now on is another copy."""
    ended = msgspec.structs.replace(mark, ended=target.now())
    await target.put_setting(COPY_SETTING, _encode(ended), expect=_encode(mark))


def _name_of(info: StoreInfo) -> str:
    return f"{info.kind} {info.location}"


def _same_store(name: str) -> ConfigurationError:
    return ConfigurationError(f"Both URLs name one store, {name}. Name another to copy into.")


async def _refuse_inhabited(target: Store, source: str, *, again: bool) -> None:
    info = await target.info()
    if not info.entries:
        return
    if again:
        raise ConfigurationError(
            f"{info.location} was filled from {source} before, to the end. A task that ended there "
            "and was deleted since would come back and run again; if nothing has worked on it "
            "since, repeat with --merge."
        )
    raise ConfigurationError(
        f"{info.location} holds {info.entries:,} tasks of its own. Name an empty store, or add "
        "--merge to copy beside them: what is there already is left as it is."
    )
