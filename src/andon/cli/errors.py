"""What a user reads when something goes wrong: one sentence, on stderr."""

from typing import IO, Any

import click

from andon.cli.cleaning import clean
from andon.model.errors import AndonError


class CommandFailed(click.ClickException):
    """Ends the command with exit code 1 and this sentence."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"andon: {clean(self.format_message())}", file=file, err=file is None)


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
