"""Check every file of the evidence store.

    python -m scripts.verify_evidence

Exit status: 0 all whole, 1 something is damaged, 2 no store.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.store import EvidenceStore
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = command_parser("verify_evidence", __doc__)
    parser.add_argument("store", type=Path, nargs="?", default=Workspace(ROOT).evidence.root)
    store = EvidenceStore(parser.parse_args().store)
    files = sum(1 for path in store.root.glob("*/**/*") if path.is_file())
    if not files:
        raise TrackerError(f"{store.root}: no evidence store is here; make track makes one")
    problems = list(store.verify())
    for problem in problems:
        print(f"{problem.path}: {problem.reason}")
    print(f"{store.root}: {files} files checked, {len(problems)} damaged")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
