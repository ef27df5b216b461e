"""Tracebacks as people read them: the user's own frames, Andon's folded into a line."""

import re

_FRAME = re.compile(r'^  File "(?P<path>[^"]*)", line \d+, in ')
_OWN = re.compile(
    r"[/\\]andon[/\\](artifacts|client|engine|lifecycle|model|stores|testing|worker)[/\\]"
)


def folded(traceback: str) -> str:
    """The traceback with each row of Andon's own frames folded into one line.

    One that has no other frames is left as it is: then they are what matters.
    """
    lines = traceback.rstrip("\n").split("\n")
    kept: list[str] = []
    hidden = 0
    frames = 0
    inside = False  # the line belongs to a frame of Andon's
    for line in lines:
        found = _FRAME.match(line)
        if found is not None:
            inside = _OWN.search(found["path"]) is not None
            frames += not inside
            hidden += inside
        elif not line.startswith("    "):
            inside = False
        if inside:
            continue
        hidden = _told(kept, hidden)
        kept.append(line)
    _told(kept, hidden)
    return "\n".join(kept) if frames else "\n".join(lines)


def _told(kept: list[str], hidden: int) -> int:
    if hidden:
        kept.append(f"  … {hidden} {'frame' if hidden == 1 else 'frames'} of Andon's own")
    return 0
