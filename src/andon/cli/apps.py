"""Finds an application: `module:attribute`, `module`, or `path/to/file.py[:attribute]`.

It is imported under the name by which child processes can import it too. Whatever goes wrong is a
`ConfigurationError` that says what to write instead; `--debug` shows the traceback.
"""

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from andon.model.errors import ConfigurationError

if TYPE_CHECKING:
    from andon.client.app import Andon

_HOW = "Name it as module:attribute or path/to/file.py[:attribute]."


def load_app(spec: str, *, url: str | None = None) -> "Andon":
    """The application that `spec` names; with `url`, that store replaces its own."""
    where, attribute = split(spec)
    if url is not None:
        # What handlers in child processes import reads it from there.
        os.environ["ANDON_URL"] = url
    app = _find(_module(where), attribute, spec)
    if url is not None:
        app.live_at(url)
    return app


def split(spec: str) -> tuple[str, str]:
    """The module or file, and the attribute ("" if none is named)."""
    where, _, attribute = spec.rpartition(":") if ":" in spec else (spec, "", "")
    return where, attribute


def module_of(where: str) -> tuple[str, Path]:
    """The name to import a module or file by, and the folder that must be on the path."""
    if not where:
        raise ConfigurationError(f"Which application? {_HOW}")
    if where.endswith(".py") or os.sep in where:
        path = Path(where).absolute()
        if not path.is_file():
            raise ConfigurationError(f"There is no file {path}. {_HOW}")
        if path.suffix != ".py":
            raise ConfigurationError(f"{path} is not a Python file. {_HOW}")
        names, folder = [path.stem], path.parent
        while (folder / "__init__.py").is_file():
            names.insert(0, folder.name)
            folder = folder.parent
        if names[-1] == "__init__":
            names.pop()
        return ".".join(names), folder
    return where, Path.cwd()


def _module(where: str) -> ModuleType:
    name, folder = module_of(where)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"There is no module {name!r} in {folder} or on the Python path. {_HOW}"
            ) from error
        raise ConfigurationError(_broken(where, error)) from error
    except BaseException as error:  # an application may raise anything while imported
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ConfigurationError(_broken(where, error)) from error
    file = getattr(module, "__file__", None)
    if where.endswith(".py") and (not file or not Path(file).samefile(where)):
        raise ConfigurationError(
            f"{where} cannot be imported as {name!r}: {file or 'a built-in module'} has that name "
            "already. Rename the file."
        )
    return module


def _broken(where: str, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
    else:
        place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"Importing {where} failed: {type(error).__name__}: {text}{place}."


def _find(module: ModuleType, attribute: str, spec: str) -> "Andon":
    from andon.client.app import Andon

    apps = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Andon) and not name.startswith("__")
    }
    if attribute:
        value = vars(module).get(attribute)
        if isinstance(value, Andon):
            return value
        known = f" It has: {', '.join(apps)}." if apps else " It has no application at all."
        what = "no attribute" if value is None else f"a {type(value).__name__}, not an Andon, as"
        raise ConfigurationError(f"{module.__name__} has {what} {attribute!r}.{known}")
    distinct = {id(value): name for name, value in apps.items()}
    if not distinct:
        raise ConfigurationError(
            f"{spec} defines no application; it needs something like `app = Andon()`."
        )
    if len(distinct) > 1:
        names = ", ".join(sorted(distinct.values()))
        raise ConfigurationError(
            f"{spec} defines several applications: {names}. Say which: {spec}:{min(apps)}."
        )
    return next(iter(apps.values()))
