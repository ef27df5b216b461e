"""Prints errors for the user: one sentence, on stderr."""

from typing import IO, TYPE_CHECKING, Any

import click

from andon.model.cleaning import clean
from andon.model.errors import AndonError

if TYPE_CHECKING:
    from andon.client.lifespan import Fault


class CommandFailed(click.ClickException):
    """Ends the command with exit code 1 and this sentence."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"andon: {clean(self.format_message())}", file=file, err=file is None)


class HookFailed(CommandFailed):
    """A hook of the user's raised: where, and the sentence that names it."""

    def __init__(self, fault: "Fault") -> None:
        error = fault.error
        text = f": {error}" if str(error) else ""
        super().__init__(f"The {fault.what} has raised {type(error).__name__}{text}")
        self._fault = fault

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the traceback from the hook on, then the sentence."""
        from traceback import format_exception

        from andon.lifecycle.tracebacks import folded

        error = self._fault.error
        lines = format_exception(type(error), error, self._fault.traceback)
        click.echo(clean(folded("".join(lines))), file=file, err=file is None)
        super().show(file)


def sentence(error: Exception) -> str:
    """The error in one line."""
    if isinstance(error, AndonError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    text = " ".join(str(error).split())
    return (
        f"this should not have happened: {type(error).__name__}: {text} "
        "(run again with ANDON_DEBUG=1 for the traceback, and please report it)"
    )
