"""Which environment variables commands and child processes get: Andon's own stay behind."""

import json
import os
import sys
from typing import Any

import pytest

from andon import Andon
from andon.model.errors import ConfigurationError
from andon.stores.registry import open_store
from andon.worker.environment import of_child, of_command

from . import children
from .kit import Kit, result_of

SECRETS = {
    "ANDON_URL": "postgresql://andon:secret@db/tasks",
    "ANDON_TOKEN": "at_secret",
    "ANDON_ARTIFACTS": "s3://key:secret@bucket",
    "DATABASE_URL": "postgresql://shop:secret@db/shop",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu-1",
}
PLAIN = {"PATH": "/bin", "LANG": "C.UTF-8", "LC_TIME": "C", "HOME": "/root", "TZ": "UTC"}
WORKER = {**SECRETS, **PLAIN}

DUMP = (sys.executable, "-S", "-c", "import json,os; print(json.dumps(dict(os.environ)))")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_a_command_gets_the_allow_list_and_its_own():
    assert of_command(WORKER, (), {"ANDON_RUN": "0"}) == {**PLAIN, "ANDON_RUN": "0"}


@pytest.mark.parametrize(
    ("passed", "more"),
    [
        (("AWS_REGION",), {"AWS_REGION"}),
        (("AWS_*",), {"AWS_REGION", "AWS_SECRET_ACCESS_KEY"}),
        (("*",), {"AWS_REGION", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL"}),
        (("ANDON_*",), set[str]()),
        (("ANDON_URL",), {"ANDON_URL"}),
        (("NOT_THERE",), set[str]()),
    ],
)
def test_what_is_named_is_passed_and_the_way_to_the_store_only_in_full(
    passed: tuple[str, ...], more: set[str]
):
    assert set(of_command(WORKER, passed, {})) == {*PLAIN, *more}


def test_a_child_gets_all_but_andons_own_and_what_stands_for_it():
    given = of_child({**WORKER, "ANDON_LOG_FORMAT": "json"}, ())
    assert set(given) == {*WORKER, "ANDON_LOG_FORMAT"} - {"ANDON_ARTIFACTS"}
    assert given["DATABASE_URL"] == SECRETS["DATABASE_URL"]
    assert "secret" not in given["ANDON_URL"] + given["ANDON_TOKEN"]
    assert of_child(WORKER, ("ANDON_URL",))["ANDON_URL"] == SECRETS["ANDON_URL"]


def test_a_child_is_given_nothing_that_the_worker_has_not():
    assert of_child(PLAIN, ("ANDON_URL",)) == PLAIN


def test_a_handler_that_asks_for_the_store_in_a_child_is_told_what_to_do():
    with pytest.raises(ConfigurationError, match=r"--pass-env ANDON_URL,ANDON_TOKEN"):
        open_store(of_child(WORKER, ())["ANDON_URL"])


async def test_a_command_sees_no_secret_of_its_worker(kit: Kit, secrets: None):
    kit.add(None, name="dump", kind="command", argv=DUMP, env={"OWN": "x"})
    kit.add(None, name="more", kind="command", argv=DUMP, pass_env=("AWS_*",))
    await kit.start(pass_env=("DATABASE_URL",))
    seen = result_of(await kit.run("dump"))
    assert seen["OWN"] == "x"
    assert seen["DATABASE_URL"] == SECRETS["DATABASE_URL"]
    assert seen["PATH"] == os.environ["PATH"]
    assert {name for name in seen if name.startswith("ANDON_")} == {
        "ANDON_TASK_ID",
        "ANDON_RUN",
        "ANDON_FENCE",
        "ANDON_HEADERS",
        "ANDON_FOLLOW_UPS",
    }
    assert not {name for name in seen if name.startswith("AWS_")}
    assert result_of(await kit.run("more"))["AWS_SECRET_ACCESS_KEY"] == "secret"


@pytest.mark.slow
async def test_a_child_process_sees_the_applications_settings_and_no_way_to_the_store(
    secrets: None,
):
    kit = Kit()
    kit.registry = children.registry
    await kit.open()
    try:
        await kit.start(app=f"{children.__name__}:registry")
        seen = result_of(await kit.run("environment"))
    finally:
        await kit.close()
    assert seen["DATABASE_URL"] == SECRETS["DATABASE_URL"]
    assert "secret" not in json.dumps({n: v for n, v in seen.items() if n.startswith("ANDON_")})


@pytest.mark.parametrize("pattern", ["", "A=B", "A*B", "A\0"])
def test_a_pattern_that_names_nothing_is_refused(pattern: str):
    app = Andon("memory://")
    with pytest.raises(ConfigurationError, match="names no environment variables"):
        app.command("c", ["true"], pass_env=[pattern])
    with pytest.raises(ConfigurationError, match="names no environment variables"):
        app.worker_config({"pass_env": [pattern]})


def test_one_text_is_no_list_of_patterns():
    app = Andon("memory://")
    with pytest.raises(ConfigurationError, match="a list of names"):
        app.command("c", ["true"], pass_env="AWS_*")
    with pytest.raises(ConfigurationError, match="a list of names"):
        app.worker_config({"pass_env": "AWS_*"})


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "x\0"}, {"A": 5}])
def test_a_variable_that_cannot_be_is_refused(env: Any):
    with pytest.raises(ConfigurationError, match="names and values are texts"):
        Andon("memory://").command("c", ["true"], env=env)
