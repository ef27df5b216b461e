"""Runs every command that README.md and docs/ show, so that none of them can rot.

    python scripts/check_docs.py [PAGE ...]

A page is played in a fresh folder, from top to bottom:

- a ```python block whose first line is `# name.py` becomes that file; any other must compile, and
  may await without a function around it;
- in a ```console block each line after `$ ` is run by bash; one that ends in ` &` runs beside the
  rest of the page and is told to stop (SIGTERM) at its end;
- `make …` runs in the project's folder. `make test` is left out: CI runs it as its own step;
- a block after a line `<!-- not run: reason -->` is only shown.

A command must exit 0, or with N after a line `<!-- exits N -->`. ANDON_URL is a store in the
page's folder, and `andon` is the one installed beside this Python.
"""

import argparse
import ast
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 240

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>not run: [^>]+|exits \d+) -->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE = re.compile(r"make (test|help|lint|types|layers|docs|bench|format|clean)\b")


@dataclass
class Block:
    """One fenced block."""

    kind: str
    text: str
    note: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that are to be played, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(found["kind"], found["text"], found["note"] or "", line)


def commands(block: Block) -> Iterator[str]:
    """The commands of a console block; a trailing backslash continues a line."""
    text = block.text.replace("\\\n", "")
    for line in text.splitlines():
        if line.startswith("$ "):
            yield line[2:].strip()


class Player:
    """Plays one page in a folder of its own."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.problems: list[str] = []
        self.ran = 0
        self._beside: list[tuple[str, subprocess.Popen[str]]] = []
        beside = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}",
            "ANDON_URL": f"sqlite:///{folder / 'andon.db'}",
            "COLUMNS": "100",
        }

    def play(self) -> None:
        """Play all blocks, then end what still runs."""
        try:
            for block in blocks(self.page):
                if block.note.startswith("not run"):
                    continue
                if block.kind == "python":
                    self._python(block)
                else:
                    self._console(block)
        finally:
            self._end()

    def _python(self, block: Block) -> None:
        name = re.match(r"# (\S+\.py)\n", block.text)
        if name:
            (self.folder / name[1]).write_text(block.text, encoding="utf-8")
        try:
            flags = 0 if name else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compile(block.text, f"{self.page.name}:{block.line}", "exec", flags)
        except SyntaxError as error:
            self._problem(block, "this Python does not compile", str(error))

    def _console(self, block: Block) -> None:
        expected = int(block.note.split()[1]) if block.note else 0
        for command in commands(block):
            if _ELSEWHERE.match(command):
                continue
            self.ran += 1
            if command.endswith(" &"):
                self._start(command[:-2])
                continue
            folder = ROOT if command.startswith("make ") else self.folder
            try:
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", command],
                    cwd=folder,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                self._problem(block, f"$ {command}", f"did not end within {PATIENCE_S} s")
                continue
            if done.returncode != expected:
                output = (done.stdout + done.stderr).strip()[-2_000:]
                self._problem(block, f"$ {command} exited {done.returncode}", output)

    def _start(self, command: str) -> None:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._beside.append((command, process))

    def _end(self) -> None:
        for command, process in self._beside:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                _, errors = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                self.problems.append(f"{self.page.name}: $ {command} & does not stop on SIGTERM")
                continue
            if process.returncode not in (0, -signal.SIGTERM):
                tail = errors.strip()[-1_000:]
                self.problems.append(
                    f"{self.page.name}: $ {command} & exited {process.returncode}\n{tail}"
                )

    def _problem(self, block: Block, what: str, detail: str) -> None:
        self.problems.append(f"{self.page.name}:{block.line}: {what}\n{detail}")


def main() -> int:
    """Play the pages; the number of those with problems."""
    parser = argparse.ArgumentParser(description="Run every command the docs show.")
    parser.add_argument("pages", nargs="*", type=Path, help="default: README.md and docs/")
    asked = [page.resolve() for page in parser.parse_args().pages]
    pages = asked or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    failed = 0
    for page in pages:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="andon-docs-") as folder:
            player = Player(page, Path(folder))
            player.play()
        for problem in player.problems:
            print(problem, file=sys.stderr)
        failed += bool(player.problems)
        if player.ran:
            took = time.monotonic() - started
            verdict = "FAILED" if player.problems else "ok"
            print(f"{page.relative_to(ROOT)}: {player.ran} commands, {verdict}, {took:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
