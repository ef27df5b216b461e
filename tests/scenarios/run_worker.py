"""Runs a worker: `python -m scenarios.run_worker MODULE:ATTRIBUTE SETTINGS_AS_JSON`."""

import asyncio
import importlib
import json
import sys


def main() -> None:
    module, _, attribute = sys.argv[1].partition(":")
    app = getattr(importlib.import_module(module), attribute)
    asyncio.run(app.run_worker(**json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
