"""Choose which commits of Triton's main to measure next.

    python -m scripts.select_commits --out next.txt --limit 20
    python -m scripts.select_commits --out shards --shards 20 --limit 200

They are written as a HASHFILE for asv, or as shards, and beside those the lists that order and name what
workers measure (OUT/results), for scripts.merge_results. Nothing is fetched and nothing is measured.

Exit status: 0 chosen (even if that is none), 2 cannot choose.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.code_digest import measured_commits
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import find_history, open_history
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.following import write_lists
from scripts.tracker.harness import describe_suite, machine_name
from scripts.tracker.history import LandedCommit
from scripts.tracker.results import read_failures
from scripts.tracker.selection import Selection, read_selection_rules, select, shards, since
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parent.parent
_MAX_SHARDS = 256  # what a matrix of GitHub Actions may have


def main() -> int:
    options = _options()
    workspace = CommitsWorkspace(ROOT)
    line = since(_line(options.history, workspace), options.since)
    suite = describe_suite(ROOT, "benchmarks.codegen", options.target)
    folder = workspace.results / machine_name(options.target)
    failures = read_failures(workspace.results).get(options.target, {})
    selection = select(
        line,
        read_selection_rules(read_rules()),
        options.target,
        measured_commits(folder, suite, workspace.evidence),
        {commit for commit, failure in failures.items() if not failure.transient},
    )
    chosen = selection.chosen[: options.limit]
    _say(selection, line, len(chosen))
    if options.shards:
        parts = shards(chosen, line, options.shards)
        names = [f"shard-{i:03}.txt" for i, part in enumerate(parts, 1) if part]
        for name, part in zip(names, parts, strict=False):
            _write(options.out / name, part)
        for stale in set(options.out.glob("shard-*.txt")) - {options.out / name for name in names}:
            stale.unlink()
        write_lists(options.out / "results", selection, suite)
        print(json.dumps({"shard": names}))
    else:
        _write(options.out, [c.commit.sha for c in chosen])
    return 0


def _options() -> argparse.Namespace:
    parser = command_parser("select_commits", __doc__)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the HASHFILE; with --shards the folder of shard-001.txt and on",
    )
    parser.add_argument("--history", type=Path, help="a clone or a history file; default: the one in .cache")
    parser.add_argument("--since", help="oldest commit to look at; default: the first of the history")
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--limit", type=int, help="at most so many commits")
    parser.add_argument("--shards", type=int, help="divide them; prints the matrix of a workflow as JSON")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error("--limit: at least 1")
    if options.shards is not None and not 1 <= options.shards <= _MAX_SHARDS:
        parser.error(f"--shards: 1 to {_MAX_SHARDS}")
    return options


def _line(path: Path | None, workspace: CommitsWorkspace) -> list[LandedCommit]:
    history = open_history(path) if path else find_history(workspace.cache)
    if history is None:
        raise TrackerError(
            f"{workspace.cache}: no history of Triton: make follow makes a clone, or name one by --history"
        )
    return history.main_line()


def _write(path: Path, commits: Sequence[str]) -> None:
    atomic_write(path, "".join(f"{sha}\n" for sha in commits).encode())


def _say(selection: Selection, line: Sequence[LandedCommit], count: int) -> None:
    """What was decided about each commit, in numbers. On stderr: stdout is the matrix."""
    skipped, whys = len(selection.not_applicable), Counter(c.why.value for c in selection.chosen)
    of_each = ", ".join(f"{n} {why}" for why, n in whys.items()) or "none"
    print(
        f"{len(line)} commits of main, {skipped} not applicable ({skipped / max(1, len(line)):.1%}), "
        f"{len(selection.chosen)} to measure ({of_each}), "
        f"{len(selection.orphans)} measured and not on main any more; {count} written",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
