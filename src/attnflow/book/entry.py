"""The command's first lines: importing the rest takes a second, in which Ctrl-C is a sentence too."""

from __future__ import annotations

import sys


def main() -> None:
    """Start the command line."""
    try:
        from attnflow.book.commands.cli import main as start

        start()
    except KeyboardInterrupt:
        sys.stderr.write("stopped before anything began\n")
        sys.exit(130)
