"""The name and release of the application that declares a schedule."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from andon.client.naming import location_of
from andon.lifecycle.schedules import modified_release

if TYPE_CHECKING:
    from andon.client.declaring import Declaring

_UNNAMED = "app"


def application_name(app: "Declaring") -> str:
    """The name it was given, else `module:attribute` under which it can be imported."""
    return app.name or location_of(app, app.registry) or _UNNAMED


def release_of(app: "Declaring") -> str:
    """The release it was given, else when the newest of its handlers' modules was modified."""
    if app.release is not None:
        return app.release
    modules = {getattr(kind.handler, "__module__", "") for kind in app.registry}
    files = {getattr(sys.modules.get(name), "__file__", None) for name in modules}
    newest = 0.0
    for file in files:
        try:
            newest = max(newest, Path(file).stat().st_mtime if file else 0.0)
        except OSError:  # not a file of its own: part of an archive, or typed in
            continue
    return modified_release(round(newest * 1000))
