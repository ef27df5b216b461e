"""What the store says survives is what the server is set to."""

import pytest
from servers.redis import RedisServer

from .conftest import OpenKit, Start


@pytest.mark.parametrize(
    ("options", "crash", "power"),
    [
        ({"appendfsync": "always"}, "acknowledged survives (", "everything acknowledged"),
        ({"appendfsync": "everysec"}, "acknowledged during a flush", "up to 2 s"),
        ({"appendfsync": "no"}, "acknowledged survives (", "30 s as a rule"),
        ({"appendonly": "no"}, "nothing survives", "nothing survives"),
        (
            {"appendonly": "no", "settings": ["save 60 1000"]},
            "since the last snapshot",
            "since the last snapshot",
        ),
    ],
)
async def test_durability_follows_the_settings(
    start: Start, open_kit: OpenKit, options: dict[str, object], crash: str, power: str
) -> None:
    kit = await open_kit(start(**options).url("t"))
    info = await kit.store.info()
    assert crash in info.durability["process_crash"]
    assert power in info.durability["power_cut"]
    assert info.durability["os_crash"] == info.durability["power_cut"]


async def test_a_server_that_hides_its_settings_is_called_unknown(
    start: Start, open_kit: OpenKit
) -> None:
    server = start(settings=['rename-command CONFIG ""'])
    kit = await open_kit(server.url("t"))
    info = await kit.store.info()
    assert all(text.startswith("unknown") for text in info.durability.values())


async def test_a_server_that_may_throw_tasks_away_is_warned_of(
    start: Start, open_kit: OpenKit
) -> None:
    kit = await open_kit(
        start(settings=["maxmemory 100mb", "maxmemory-policy allkeys-lru"]).url("t")
    )
    assert "noeviction" in (await kit.store.info()).settings["warning"]


async def test_a_proper_server_has_no_warning(shared: RedisServer, open_kit: OpenKit) -> None:
    kit = await open_kit(shared.url("proper"))
    info = await kit.store.info()
    assert "warning" not in info.settings
    assert info.settings["server"].startswith(("redis ", "valkey "))
