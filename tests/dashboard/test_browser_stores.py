"""The board in a real browser over the stores that are servers: the rest is tested on SQLite."""

from pathlib import Path

import pytest
from servers import Servers

from .browser import chromium, looking, needs_chromium
from .finding import find_and_rerun
from .scene import scene, settled
from .walking import walk

pytestmark = [needs_chromium, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_every_page_is_whole_and_a_failure_is_found_and_run_again(
    kind: str, servers: Servers, tmp_path: Path
):
    with scene(tmp_path, servers.fresh_url(kind, tmp_path)) as shop, chromium() as browser:
        settled(shop)
        with looking(browser, shop.url) as board:
            walked = [name for name, _ in walk(board)]
            assert "flow" in walked
            board.open("/")
            assert find_and_rerun(board.page, "shop.charge", "refused the connection") <= 5
