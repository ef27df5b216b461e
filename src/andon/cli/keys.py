"""`andon keys`: the keys that sign tasks, and those that workers trust. PEM files, no store."""

import os
from pathlib import Path
from typing import Any

import click

from andon.cli.session import Session, common
from andon.model.errors import ConfigurationError


@click.group()
def keys() -> None:
    """Make and show the keys that sign tasks.

    Who submits has the private key (andon submit --sign FILE, or ANDON_SIGNING_KEY), workers have
    the public one (andon worker --trust FILE.pub, or ANDON_TRUSTED_KEYS).
    """


@keys.command("new")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@common
def new_key(session: Session, *, path: Path) -> None:
    """Make a key: the private one in FILE, the public one in FILE.pub.

    FILE can be read by you only. A file that is there is never replaced.
    """
    from andon.signing import SigningKey

    key = SigningKey.generate()
    public = path.with_name(path.name + ".pub")
    if public.exists():
        raise ConfigurationError(f"{public} is there already. Name another file.")
    _write_new(path, key.private_pem(), mode=0o600)
    try:
        _write_new(public, key.public_pem(), mode=0o644)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if session.out.json:
        session.out.document({"id": key.key_id, "private": str(path), "public": str(public)})
        return
    session.out.line(key.key_id)
    session.out.note(f"Keep {path} where tasks are submitted; give {public} to the workers.")


@keys.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@common
def show(session: Session, *, files: tuple[str, ...]) -> None:
    """Print the ids and public keys in PEM files; never a private one.

    What it prints of a private key's file is what its FILE.pub has.
    """
    from andon.signing import key_id
    from andon.signing.keys import keys_of, public_pem, warn_if_shared

    shown: list[dict[str, Any]] = []
    for file in files:
        found = keys_of(file)
        if any(key.private is not None for key in found):
            warn_if_shared(file)
        for key in found:
            kind = "public" if key.private is None else "private"
            pem = public_pem(key.public).decode()
            shown.append({"file": file, "id": key_id(key.public), "kind": kind, "public": pem})
    if session.out.json:
        session.out.document(shown)
        return
    for one in shown:
        session.out.note(f"{one['file']}: {one['kind']} key {one['id']}")
        for line in one["public"].splitlines():
            session.out.line(line)


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that must not be there. Raises `ConfigurationError`."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise ConfigurationError(f"{path} is there already. Name another file.") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
