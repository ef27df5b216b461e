"""The entry point of `andon` and `python -m andon.cli`."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line; without the extra, say what to install."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"andon: the command line needs {' and '.join(missing)}. "
            "Install it with: pip install 'andon[cli]'\n"
        )
        sys.exit(1)
    from andon.cli.root import root

    root(prog_name="andon")


if __name__ == "__main__":
    main()
