"""Name the commits that may have made each finding, ranked.

    python -m scripts.attribute --format json
    python -m scripts.attribute --write-history FOLDER    # a clone of Triton

Each with its score and the reasons.
Exit status: 0 done, 2 could not judge (nothing measured, no history, or a file is damaged).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.tracker.attribution_report import attribution_json, print_attribution
from scripts.tracker.backtest import print_backtest, read_known_commits
from scripts.tracker.clone import clone_at
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import CLONE, HISTORY_FILE, find_history, open_history
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.history import FileHistory, history_file_bytes
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.store import atomic_write
from scripts.tracker.terminal import terminal
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    options = _options()
    workspace = Workspace(ROOT)
    if options.write_history:
        return _write_history(options.write_history, workspace)
    if options.backtest:
        return _backtest(options.backtest, options.history, workspace)
    history = load_history(workspace)
    if options.history:
        history.triton = open_history(options.history)
    if history.triton is None:
        raise TrackerError(_NO_HISTORY)
    findings = judge(history).findings
    if options.format == "json":
        print(attribution_json(findings))
    else:
        print_attribution(terminal(), findings)
    for problem in history.problems:
        print(f"error: {problem}", file=sys.stderr)
    return EXIT_CANNOT_JUDGE if history.problems else 0


def _options() -> argparse.Namespace:
    parser = command_parser("attribute", __doc__)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument(
        "--history", type=Path, help=f"a clone of Triton or a history file; default: .cache/{CLONE}, else "
        f".cache/{HISTORY_FILE}",
    )  # fmt: skip
    parser.add_argument(
        "--write-history", metavar="CLONE", type=Path,
        help=f"make .cache/{HISTORY_FILE} of a clone, and stop",
    )  # fmt: skip
    parser.add_argument(
        "--backtest", metavar="FILE", type=Path,
        help="rank commits of known nature, as tests/data/known_commits.toml lists them, and stop",
    )  # fmt: skip
    return parser.parse_args()


# asv wants a full clone at that place; for names and files one without blobs does, anywhere.
_NO_HISTORY = (
    "no history of Triton's commits: git clone --bare --filter=blob:none "
    "https://github.com/triton-lang/triton FOLDER, then name it with --history FOLDER, or keep its history "
    f"with --write-history FOLDER; a full clone at .cache/{CLONE} is found by itself"
)


def _write_history(clone: Path, workspace: Workspace) -> int:
    commits = clone_at(clone).main_line()
    path = workspace.cache / HISTORY_FILE
    atomic_write(path, history_file_bytes(commits))
    print(f"{path}: {len(commits)} commits, {commits[0].date.date()} to {commits[-1].date.date()}")
    return 0


def _backtest(known: Path, named: Path | None, workspace: Workspace) -> int:
    history = open_history(named) if named else find_history(workspace.cache)
    if history is None:
        raise TrackerError(_NO_HISTORY)
    if not isinstance(history, FileHistory):
        raise TrackerError("the backtest needs a history file: --write-history makes one of a clone")
    print_backtest(terminal(), history, read_known_commits(known))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
