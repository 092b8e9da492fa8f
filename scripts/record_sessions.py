"""Turn the files of a GPU session into asv result files.

    python -m scripts.record_sessions FOLDER --results benchmarks/recorded
    python -m scripts.record_sessions --commits FOLDER

With --commits: what the plans of `time_commits --commits --plan-only` left, recorded as of main.
A session times many commits side by side, which `asv run` cannot: it goes commit by commit. The samples get
asv's own statistics (`asv.results`), so `asv publish` and `asv compare` read the folder too.

Exit status: 0 written, 1 some sessions of --commits could not be, 2 a session cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.change_sessions import record_folder_of_change, session_folders, timed_suites
from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, printable, run_command
from scripts.tracker.recording import record_folder
from scripts.tracker.workspace import CommitsWorkspace, Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = command_parser("record_sessions", __doc__)
    parser.add_argument("folder", type=Path, help="where a session wrote its files")
    parser.add_argument("--results", type=Path, default=Workspace(ROOT).results)
    parser.add_argument("--commits", action="store_true", help="sessions of followed commits, one or many")
    options = parser.parse_args()
    if options.commits:
        return _record_changes(options.folder)
    print(record_folder(Workspace(ROOT), options.folder, options.results))
    return 0


def _record_changes(folder: Path) -> int:
    """A session that is damaged, or did not end, is said; the others are recorded. 1 if there is one."""
    workspace, failed = CommitsWorkspace(ROOT), 0
    suites = timed_suites(ROOT)
    for session in session_folders(folder):
        try:
            print(record_folder_of_change(workspace, session, suites))
        except TrackerError as error:
            print(f"error: {printable(str(error))}", file=sys.stderr)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(run_command(main))
