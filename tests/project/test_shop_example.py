"""The shop in examples/: from a wheel in an environment of its own, on PostgreSQL.

It needs the package index, as every first setup does.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from launching import launch
from ports import free_port
from psycopg import sql
from servers import Servers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop"
PATIENCE_S = 60.0


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a program to its end; its output. It must exit 0."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ANDON_", "PYTHON"))}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with Andon from a wheel, and what the shop needs."""
    folder = tmp_path_factory.mktemp("shop")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    pinned = ("--constraint", ROOT / "constraints.txt")
    built = ("--build-constraint", ROOT / "constraints.txt")
    run(*pip, "wheel", "--no-deps", "-w", folder, *built, ROOT, cwd=folder)
    [wheel] = folder.glob("andon-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    # Most of what is installed is never imported: it is compiled when it is.
    into = ("--python", str(python), "install", "--no-compile", *pinned)
    run(*pip, *into, f"{wheel}[cli,postgres]", cwd=folder)
    run(*pip, *into, "--group", f"{ROOT / 'pyproject.toml'}:shop", cwd=folder)
    return python.parent


def test_its_own_tests_pass_in_virtual_time(binaries: Path, tmp_path: Path):
    said = run(binaries / "python", "-m", "pytest", "-q", SHOP / "tests", "-p", "no:cacheprovider",
               "--rootdir", SHOP, "-c", os.devnull, cwd=tmp_path, PYTHONPATH=str(SHOP))  # fmt: skip
    assert "passed" in said


def test_it_is_typed_strictly_for_pyright_and_for_mypy(binaries: Path, tmp_path: Path):
    settings = {
        "include": [str(SHOP)],
        "extraPaths": [str(SHOP)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    run(binaries / "pyright", "--pythonpath", binaries / "python", cwd=tmp_path)
    run(binaries / "mypy", "--strict", "--cache-dir", tmp_path / "cache", SHOP / "shop",
        SHOP / "tests", cwd=tmp_path, MYPYPATH=str(SHOP))  # fmt: skip


def tables_of_its_own(store_url: str) -> str:
    """The store's database, with a schema for one shop: tests share the server."""
    database = store_url.partition("?")[0]
    schema = f"shop_{uuid.uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    return f"{database}?options=-csearch_path%3D{schema}"


class Shop:
    """The shop as processes: its web server, its worker, and PostgreSQL behind both."""

    def __init__(self, binaries: Path, url: str, files: Path) -> None:
        self._binaries = binaries
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            "ANDON_URL": url,
            "SHOP_DATABASE": tables_of_its_own(url),
            "SHOP_FILES": files.as_uri(),
            "PYTHONPATH": str(SHOP),
        }
        self._port = free_port()
        self._running: list[subprocess.Popen[bytes]] = []
        self.web = self._start(
            "uvicorn", "shop.web:web", "--port", f"{self._port}", "--no-access-log"
        )

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        process = launch([self._binaries / program, *arguments], env=self._environment)
        self._running.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("andon", "worker", "shop.tasks", "--quiet")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        """Ask again and again until there is something."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                answer = found()
            except OSError:
                answer = None
            if answer:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {PATIENCE_S} s")

    def close(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(PATIENCE_S)


@pytest.fixture
def shop(binaries: Path, servers: Servers, tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(binaries, servers.fresh_url("postgres", tmp_path), tmp_path / "files")
    try:
        opened.until("the web server", lambda: opened.ask("GET", "/openapi.json"))
        yield opened
    finally:
        opened.close()


def test_orders_are_shipped_once_though_a_worker_is_killed(shop: Shop):
    first = shop.worker()
    rows = "sku,name,cents\n" + "".join(f"p{n},Product {n},{n * 100}\n" for n in range(1, 6))
    task = shop.ask("POST", "/imports", {"rows": rows})["import"]
    done = shop.until("the import", lambda: _ended(shop.ask("GET", f"/imports/{task}")))
    assert done == {"state": "completed", "percent": 100, "at": "p5"}

    orders = [
        shop.ask("POST", "/orders", {"sku": f"p{n % 5 + 1}", "email": f"c{n}@example.org"})["order"]
        for n in range(20)
    ]
    first.kill()
    shop.worker()
    for order in orders:
        shop.until(f"order {order}", lambda n=order: _shipped(shop.ask("GET", f"/orders/{n}")))


def _shipped(seen: dict[str, Any]) -> bool:
    assert seen.get("shipping") in (None, "blocked", "pending", "active", "retry", "completed"), (
        seen
    )
    return (seen["state"], seen.get("shipping")) == ("shipped", "completed")


def _ended(seen: dict[str, Any]) -> dict[str, Any] | None:
    return seen if seen["state"] not in ("pending", "active", "retry") else None


def test_an_order_that_does_not_commit_leaves_no_task(shop: Shop):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        shop.ask("POST", "/orders", {"sku": "nothing", "email": "ann@example.org"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        shop.ask("GET", "/orders/1")
