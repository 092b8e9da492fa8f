"""Turn the files of a GPU session into asv result files.

    python -m scripts.record_sessions FOLDER --results benchmarks/recorded

A session times many commits side by side, which `asv run` cannot: it goes commit by commit. The samples get
asv's own statistics (`asv.results`), so `asv publish` and `asv compare` read the folder too.

Exit status: 0 written, 2 a session cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import run_command
from scripts.tracker.timing_run import record_folder
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = command_parser("record_sessions", __doc__)
    parser.add_argument("folder", type=Path, help="where a session wrote its files")
    parser.add_argument("--results", type=Path, default=Workspace(ROOT).results)
    options = parser.parse_args()
    print(record_folder(Workspace(ROOT), options.folder, options.results))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
