"""What a worker that has nothing to do costs its server, and who is told of what."""

import os
import subprocess
import sys
import time

import pytest
from servers.redis import RedisServer, until

from andon.contract.topics import ready_topic
from andon.lifecycle.constants import SLOW_POLL_S

from .conftest import OpenKit, Start

AT_MOST = 5.0
"""Commands a second, those that scripts make among them."""

WHILE_S = 3 * SLOW_POLL_S
"""Seconds for which they are counted."""


def commands(server: RedisServer) -> int:
    """How many commands the server has run, but for those asked here."""
    counted = 0
    for line in server.ask("INFO", "commandstats").decode().splitlines():
        name, _, figures = line.partition(":calls=")
        if figures and name not in ("cmdstat_info", "cmdstat_zcard"):
            counted += int(figures.partition(",")[0])
    return counted


def rate_of(server: RedisServer) -> float:
    """How many commands a second the server runs, over `WHILE_S` or as long as the sleep takes on a
    busy machine."""
    before, begun = commands(server), time.monotonic()
    time.sleep(WHILE_S)
    return (commands(server) - before) / (time.monotonic() - begun)


@pytest.mark.slow
def test_an_idle_worker_asks_its_server_for_less_than_five_commands_a_second(start: Start) -> None:
    server = start()
    worker = subprocess.Popen(
        [sys.executable, "-m", "andon.bench.worker", "default", "100"],
        env={**os.environ, "ANDON_URL": server.url("idle")},
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: server.ask("ZCARD", "{idle:0}:seen"), "no worker")
        time.sleep(2)  # what it does at its start is not what it does at rest
        # It looks for fan-outs cut short every half minute, and for the minutes that are kept once
        # in its life: neither can fall into each of three times.
        rate = min(rate_of(server) for _ in range(3))
        assert worker.poll() is None
        assert 0 < rate < AT_MOST
    finally:
        worker.terminate()
        worker.wait()


async def test_who_only_submits_is_not_told_of_what_is_ready(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("told"))
    await kit.submit()
    channels = ("told:hints:ready", "told:hints:timer", "told:hints:control")
    assert shared.ask("PUBSUB", "NUMSUB", *channels)[1::2] == [0, 0, 0]
    with kit.store.listen([ready_topic("default")]):
        await kit.claim()
        assert shared.ask("PUBSUB", "NUMSUB", *channels)[1::2] == [1, 0, 0]
