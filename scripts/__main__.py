"""List the commands.

    python -m scripts

Each has --help, with an example and what its exit status says.
Exit status: 0, or 2 if a command cannot be read.
"""

from __future__ import annotations

import sys
import textwrap

from scripts.tracker.command_line import WIDTH, command_parser, list_commands
from scripts.tracker.errors import run_command


def main() -> int:
    parser = command_parser("", __doc__)
    parser.prog = "python -m scripts"
    parser.parse_args()
    commands = list(list_commands())
    width = max(len(name) for name, _ in commands) + 2
    print(".venv/bin/python -m scripts.COMMAND [--help]\n")
    for name, what in commands:
        print(f"{name:{width}}{textwrap.shorten(what, WIDTH - width, placeholder=' …')}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
