"""The files in examples/deploy: what tools accept, and what this release understands."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from kubernetes_validate import validate

from andon.cli.root import root
from andon.lifecycle.profiles import PROFILES

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
OPENAPI = json.loads((DEPLOY.parents[1] / "docs" / "openapi.json").read_text())
UNITS = sorted(DEPLOY.glob("*.service"))
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of Andon in these files, with where it stands."""
    for unit in UNITS:
        [line] = re.findall(r"^ExecStart=\S+/andon (.*)$", unit.read_text(), re.MULTILINE)
        yield unit.name, line.split()
    for name, service in COMPOSE["services"].items():
        if "command" in service:
            yield f"compose.yaml: {name}", service["command"][1:]
    for manifest in MANIFESTS:
        for container in containers(manifest):
            yield f"kubernetes.yaml: {manifest['metadata']['name']}", container["args"][1:]


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return manifest["spec"].get("template", {}).get("spec", {}).get("containers", [])


@pytest.mark.parametrize(("where", "words"), list(commands()), ids=lambda value: str(value)[:40])
def test_the_command_line_knows_each_command_and_its_options(where: str, words: list[str]):
    name, *rest = words
    context = click.Context(root)
    command = root.get_command(context, name)
    assert command is not None, where
    command.make_context(name, list(rest), parent=context)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    # The program and the user of the example are not here; everything else is checked as it is.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
    copied = tmp_path / unit.name.replace("@.", "@1.")
    copied.write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copied],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in checked.stderr.splitlines() if copied.name in line]
    assert said == []


@pytest.mark.parametrize(
    "manifest",
    [m for m in MANIFESTS if not m["apiVersion"].startswith("keda.sh/")],
    ids=lambda manifest: f"{manifest['kind']}-{manifest['metadata']['name']}",
)
def test_kubernetes_accepts_the_manifest(manifest: dict[str, Any]):
    validate(manifest, "1.30", strict=True)


def test_probes_and_the_autoscaler_ask_for_routes_that_there_are():
    paths = ["/healthz", "/readyz"]  # no part of the API that the document describes
    paths += [re.sub(r"\{\w+\}", "[^/]+", path) for path in OPENAPI["paths"]]
    asked = [
        probe["httpGet"]["path"]
        for manifest in MANIFESTS
        for container in containers(manifest)
        for name, probe in container.items()
        if name.endswith("Probe")
    ]
    [scaled] = [m for m in MANIFESTS if m["kind"] == "ScaledObject"]
    [trigger] = scaled["spec"]["triggers"]
    asked.append(trigger["metadata"]["url"].removeprefix("http://andon"))
    for path in asked:
        assert any(re.fullmatch(known, path) for known in paths), path


def test_what_is_stopped_has_longer_than_the_longest_grace_of_a_profile():
    longest = max(p.defaults.get("shutdown_grace", 30.0) for p in PROFILES.values())
    [worker] = [m for m in MANIFESTS if m["metadata"]["name"] == "andon-worker" and containers(m)]
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > longest
    assert int(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s")) > longest
    unit = (DEPLOY / "andon-worker@.service").read_text()
    [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(stop) > longest
