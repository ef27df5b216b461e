"""Default names are stable: they are stored with every task."""

import subprocess
import sys

import pytest

from andon import Andon
from andon.model.errors import ConfigurationError


def test_the_default_name_is_the_modules_and_the_functions(app: Andon):
    @app.task
    def greet() -> None: ...

    here = "test_the_default_name_is_the_modules_and_the_functions"
    assert greet.name == f"{__name__}.{here}.greet"


@pytest.mark.parametrize("how", [["shop.py"], ["-m", "shop"]])
def test_a_script_names_its_tasks_like_the_module_it_is(tmp_path, how):
    (tmp_path / "shop.py").write_text(
        "from andon import Andon\n"
        "app = Andon('memory://')\n"
        "@app.task\n"
        "def sell(): ...\n"
        "print(sell.name)\n"
    )
    ran = subprocess.run(
        [sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "shop.sell\n"


def test_a_name_that_cannot_be_is_refused_with_the_rule(app: Andon):
    with pytest.raises(ConfigurationError, match="is not 1 to 128 of"):
        app.task(name="übung")(lambda: None)


def test_two_functions_cannot_have_one_name(app: Andon):
    @app.task(name="a")
    def one() -> None: ...

    with pytest.raises(ConfigurationError, match="registered already"):

        @app.task(name="a")
        def other() -> None: ...


def test_versions_of_a_name_stand_side_by_side(app: Andon):
    @app.task(name="a")
    def one() -> None: ...

    @app.task(name="a", version=2)
    def two() -> None: ...

    assert (one.draft().submission.version, two.draft().submission.version) == (0, 2)


def test_a_decorated_function_is_still_the_function(app: Andon):
    @app.task
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    assert double(4) == 8
    assert double.__doc__ == "Twice."


def test_a_command_is_not_called_here(app: Andon):
    backup = app.command("backup", ["tar", "-c"])
    with pytest.raises(TypeError, match="is a command"):
        backup()
