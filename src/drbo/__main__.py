"""The command `drbo`, also as `python -m drbo`: the command line, or a hint on what to install for it."""

from __future__ import annotations

import io
import sys

from drbo._messages import MissingExtraError, require


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        for module in ("typer", "rich"):
            require(module, "cli")
    except MissingExtraError as error:
        sys.exit(f"drbo: {error}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console that lacks a letter of a name shows its code
            stream.reconfigure(errors="backslashreplace")
    from drbo.cli import app

    app()


if __name__ == "__main__":
    main()
