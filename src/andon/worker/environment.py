"""Chooses the environment variables of the commands and child processes that a worker starts.

A command may be any program: it gets an allow-list, and what its registration or its worker names
besides. A child process is the user's own application, which reads its settings (DATABASE_URL)
where the worker's own handlers read them: it gets everything but Andon's own variables, because
only the worker may connect to the store.
"""

import os
from collections.abc import Iterable, Mapping

from andon.model.errors import ConfigurationError
from andon.model.urls import WITHHELD

COMMANDS_GET = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "DYLD_*", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""What every command gets; a `*` at the end stands for any ending."""

_OURS = "ANDON_"
_HARMLESS = frozenset(("ANDON_LOG_FORMAT", "ANDON_DEBUG"))
_LEFT_BEHIND = {"ANDON_URL": f"{WITHHELD}://worker", "ANDON_TOKEN": WITHHELD}
"""The value in a child process of variables that are withheld from it. Without it, an application
that reads its store's URL from the environment would take the default, and submit tasks to a store
that no worker reads."""


def check_patterns(patterns: Iterable[str], *, where: str) -> None:
    """Raise `ConfigurationError` for a value that names no variables."""
    if isinstance(patterns, str):
        raise ConfigurationError(
            f"{where}: pass_env is a list of names, not the text {patterns!r}."
        )
    for pattern in patterns:
        if not pattern or "=" in pattern or "\0" in pattern or "*" in pattern[:-1]:
            raise ConfigurationError(
                f"{where}: {pattern!r} names no environment variables. Name one (AWS_REGION), or "
                "all that begin alike (AWS_*)."
            )


def check_variables(variables: Mapping[str, str], *, where: str) -> None:
    """Raise `ConfigurationError` for what can be no environment variables."""
    for name, value in variables.items():
        is_text = isinstance(value, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not name or "=" in name or "\0" in name or not is_text or "\0" in value:
            raise ConfigurationError(
                f"{where}: what env says of {name!r} cannot be: names and values are texts."
            )


def of_command(
    environ: Mapping[str, str], pass_env: Iterable[str], own: Mapping[str, str]
) -> dict[str, str]:
    """What a command gets of `environ`: the allow-list and `pass_env`; and what is its `own`."""
    allowed = (*COMMANDS_GET, *pass_env)
    return {**{n: v for n, v in environ.items() if _is_named(n, allowed)}, **own}


def of_child(environ: Mapping[str, str], pass_env: Iterable[str]) -> dict[str, str]:
    """What a child process gets of `environ`: all but Andon's own, unless `pass_env` names it."""
    passed = frozenset(pass_env)
    found: dict[str, str] = {}
    for name, value in environ.items():
        if not name.startswith(_OURS) or name in _HARMLESS or name in passed:
            found[name] = value
        elif name in _LEFT_BEHIND:
            found[name] = _LEFT_BEHIND[name]
    return found


def worker_environment() -> Mapping[str, str]:
    """The worker's own, as it is now: it may be changed while the worker runs."""
    return os.environ


def _is_named(name: str, patterns: Iterable[str]) -> bool:
    for pattern in patterns:
        if name == pattern:
            return True
        # The store's URL is passed on only if it is named in full: AN* or * does not name it.
        if pattern[-1] == "*" and name.startswith(pattern[:-1]) and not name.startswith(_OURS):
            return True
    return False
