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


KNOWN_TO_COMPOSE = {
    *("image", "environment", "depends_on", "restart", "command", "stop_grace_period"),
    *("deploy", "ports", "healthcheck", "volumes"),
}
"""Keys of a service that the files use; a slip among them would be refused by `docker compose`."""


def test_what_the_compose_file_names_is_there():
    services = COMPOSE["services"]
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"services", "volumes"}
    for name, service in services.items():
        assert service.keys() <= KNOWN_TO_COMPOSE, name
        for other, how in service.get("depends_on", {}).items():
            assert "healthcheck" in services[other], f"{name} waits until {other} is healthy"
            assert how == {"condition": "service_healthy"}
        if "healthcheck" in service:
            assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
        for mount in service.get("volumes", ()):
            assert mount.partition(":")[0] in COMPOSE["volumes"], mount
        for mapped in service.get("ports", ()):
            port = mapped.rpartition(":")[2]
            assert port in service["command"], f"{name} does not listen on {port}"
        for value in service["environment"].values():
            host = re.match(r"\w+://[^@]*@([^/:]+)", value.replace("${", "").replace("}", ""))
            assert host is None or host[1] in services, value


def test_a_service_that_asks_for_tokens_says_how_to_make_the_first():
    """Off loopback it does not start while there is none."""
    for file in ("compose.yaml", "kubernetes.yaml"):
        text = (DEPLOY / file).read_text()
        assert "0.0.0.0" in text
        assert "andon token create" in text, file


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
