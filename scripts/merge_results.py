"""Merge what other machines measured into this checkout.

    python -m scripts.merge_results worker-1/ worker-2.tar.gz

Results of commits, their evidence, GPU sessions. Any number of times, in any order, with files missing or
twice: it ends the same.

Exit status: 0 all merged, 1 some files were left out (said why), 2 cannot merge.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import run_command
from scripts.tracker.harness import describe_suite
from scripts.tracker.merging import Merge
from scripts.tracker.merging_timed import TIMED_MODULES
from scripts.tracker.processes import only_one
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parent.parent
_SHOWN = 20
_MODULES = ("benchmarks.codegen", *TIMED_MODULES)


def main() -> int:
    parser = command_parser("merge_results", __doc__)
    parser.add_argument(
        "folders", type=Path, nargs="+", help="of a worker each: its checkout, or an archive of it"
    )
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args()
    workspace = CommitsWorkspace(ROOT)
    suite, *timed = (describe_suite(ROOT, module, options.target) for module in _MODULES)
    with only_one(workspace):
        merge = Merge(workspace.results, workspace.evidence, workspace.sessions, suite, timed)
        for folder in options.folders:
            merge.add(folder)
    print(", ".join(f"{count} {what}" for what, count in sorted(merge.counts.items())) or "nothing to merge")
    for problem in merge.problems[:_SHOWN]:
        print(f"left out: {problem.path}: {problem.reason}", file=sys.stderr)
    if len(merge.problems) > _SHOWN:
        print(f"left out: {len(merge.problems) - _SHOWN} more", file=sys.stderr)
    return 1 if merge.problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
