"""The entry point of `python -m andon`: the command line."""

from andon.cli.__main__ import main

if __name__ == "__main__":
    main()
