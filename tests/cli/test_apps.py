"""Naming an application: what is found, and what is said when it is not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.cli.apps import load_app
from andon.cli.sources import Sources, roots_of
from andon.model.errors import ConfigurationError

ONE = "from andon import Andon\napp = Andon('sqlite:///code.db')\n"
TWO = ONE + "other = Andon()\n"


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("ANDON_URL", raising=False)
    yield
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def write(path: str, text: str) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_file_or_a_module_with_or_without_attribute() -> None:
    write("one_app.py", ONE)
    write("pkg_app/__init__.py", "")
    write("pkg_app/tasks.py", "from pkg_app.base import app\n")
    write("pkg_app/base.py", ONE)
    app = load_app("one_app.py")
    assert load_app("./one_app.py:app") is load_app("one_app:app") is load_app("one_app") is app
    assert load_app("pkg_app/tasks.py") is load_app("pkg_app.tasks:app")
    assert load_app("pkg_app.base") is load_app("pkg_app/tasks.py")


def test_the_same_application_under_two_names_is_one() -> None:
    write("alias_app.py", ONE + "application = app\n")
    assert load_app("alias_app.py").url == "sqlite:///code.db"


def test_a_url_given_wins_over_the_code_here_and_in_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANDON_URL", "sqlite:///before.db")
    write("moved_app.py", ONE)
    import os

    assert load_app("moved_app.py", url="sqlite:///given.db").url == "sqlite:///given.db"
    assert os.environ["ANDON_URL"] == "sqlite:///given.db"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("", "Which application?"),
        ("nowhere.py", "There is no file"),
        ("nowhere_mod:app", "There is no module 'nowhere_mod'"),
        ("nowhere_pkg.tasks:app", "There is no module 'nowhere_pkg.tasks'"),
        ("notes/app.txt", "is not a Python file"),
        ("two_apps.py", "defines several applications: app, other. Say which: two_apps.py:app"),
        ("two_apps.py:none", "has no attribute 'none'. It has: app, other."),
        ("no_app.py", "defines no application"),
        ("no_app.py:x", "has a int, not an Andon"),
        ("broken_app.py", "ZeroDivisionError: division by zero"),
        ("syntax_app.py", "SyntaxError"),
        ("leaving_app.py", "SystemExit: 3"),
        ("missing_app.py", "No module named 'not_installed'"),
        ("json.py", "Rename the file"),
    ],
)
def test_what_cannot_be_found_is_one_sentence(spec: str, told: str) -> None:
    write("two_apps.py", TWO)
    write("no_app.py", "x = 1\n")
    write("broken_app.py", "1 / 0\n")
    write("syntax_app.py", "def (:\n")
    write("leaving_app.py", "import sys; sys.exit(3)\n")
    write("missing_app.py", "import not_installed\n")
    write("notes/app.txt", "")
    write("json.py", ONE)
    with pytest.raises(ConfigurationError) as caught:
        load_app(spec)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_folders_to_watch_are_found_without_importing() -> None:
    write("top_app/__init__.py", "raise RuntimeError\n")
    write("top_app/sub/__init__.py", "")
    write("top_app/sub/tasks.py", ONE)
    write("one_app.py", ONE)
    here = Path.cwd()
    assert roots_of("top_app.sub.tasks:app") == [here / "top_app"]
    assert roots_of("top_app/sub/tasks.py") == [here / "top_app"]
    assert roots_of("one_app.py") == [here]
    assert roots_of("elsewhere_app:app") == [here]


def test_a_change_of_any_source_file_is_noticed_once() -> None:
    write("one_app.py", ONE)
    write(".venv/lib.py", "")
    write("notes.txt", "")
    sources = Sources([Path.cwd()])
    assert len(sources) == 1
    assert sources.changed() == []
    write("one_app.py", ONE + "# changed\n")
    write("new/helper.py", "")
    write(".venv/lib.py", "# changed")
    write("notes.txt", "changed")
    assert sources.changed() == [Path.cwd() / "new/helper.py", Path.cwd() / "one_app.py"]
    assert sources.changed() == []
    Path("one_app.py").unlink()
    assert sources.changed() == [Path.cwd() / "one_app.py"]
