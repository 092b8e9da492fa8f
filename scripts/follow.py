"""Measure Triton's main, commit by commit, and judge.

    make follow
    make follow FOLLOW="--limit 10 --since 0d9fb13e"
    python -m scripts.follow --only shards/shard-001.txt

Refreshes the clone first, and measures until nothing is left. Run it from cron as often as you like: what is
measured is not measured again, and a second run at the same time ends at once.

Exit status: 0 nothing failed, 1 a commit could not be measured, 2 cannot work, 130 stopped.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console

from scripts.comment_on_prs import write_comments
from scripts.report import write_report
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.clone import CloneHistory
from scripts.tracker.clone_refresh import TRITON, refresh_clone
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import CLONE
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.follow_state import FollowState, check_toolchain, read_state, write_state
from scripts.tracker.following import Follower, OnStep, Outcome, Tick
from scripts.tracker.harness import AsvHarness, build_deadline_s
from scripts.tracker.history import LandedCommit
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.processes import only_one
from scripts.tracker.progress import RunProgress
from scripts.tracker.report import print_summary, print_table
from scripts.tracker.selection import Chosen, read_selection_rules, since
from scripts.tracker.terminal import terminal
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parent.parent
_REFRESH_S = 3600.0  # a long run looks for new commits so often


def main() -> int:
    options = _options()
    console = terminal()
    workspace = CommitsWorkspace(ROOT)
    with only_one(workspace) as lock:
        state = read_state(workspace.results)
        check_toolchain(state)
        line = Line(workspace.cache / CLONE, options.source, options.since, state, console)
        line()
        write_state(workspace.results, state)
        harness = AsvHarness(workspace, line.clone, options.target, lock, build_deadline_s())
        follower = Follower(
            harness=harness,
            rules=read_selection_rules(read_rules()),
            state=state,
            line=line,
            on_step=_steps(console, harness, options.limit),
            now=lambda: datetime.datetime.now(datetime.UTC),
            retry_failed=options.retry_failed,
            only=_read_hashfile(options.only, line(), console) if options.only else None,
        )
        failed = 0
        try:
            for outcome in follower.run(options.limit):
                _say(console, outcome)
                failed += outcome.failure is not None
        except TrackerError:
            _conclude(console, workspace)
            raise
        _conclude(console, workspace)
    return int(failed > 0)


class Line:
    """Main as it is now, oldest first. Refreshes the clone when that was long ago."""

    def __init__(
        self, clone: Path, source: str, oldest: str | None, state: FollowState, console: Console
    ) -> None:
        self.clone = clone
        self._source = source
        self._oldest = oldest
        self._state = state
        self._console = console
        self._refreshed_s: float | None = None
        self._commits: list[LandedCommit] = []

    def __call__(self) -> Sequence[LandedCommit]:
        if self._refreshed_s is None or time.monotonic() - self._refreshed_s > _REFRESH_S:
            self._refresh()
        return self._commits

    def _refresh(self) -> None:
        if refresh_clone(self.clone, self._source, self._print, self._console.is_terminal):
            self._state.refreshed_at = datetime.datetime.now(datetime.UTC)
        self._refreshed_s = time.monotonic()
        whole = CloneHistory(self.clone).main_line()
        self._state.tip = whole[-1].sha
        self._commits = since(whole, self._oldest)

    def _print(self, words: str) -> None:
        self._console.print(words, highlight=False, markup=False, soft_wrap=True)


def _steps(console: Console, harness: AsvHarness, limit: int | None) -> OnStep:
    progress = RunProgress(console, 0)
    done = itertools.count()

    def on_step(chosen: Chosen, left: int) -> AbstractContextManager[Tick]:
        before = next(done)
        progress.total = min(before + left, limit or before + left)
        label = f"{chosen.commit.sha[:10]} ({chosen.why.value})"
        return progress.step(label, harness.suite.records)

    return on_step


def _options() -> argparse.Namespace:
    parser = command_parser("follow", __doc__)
    parser.add_argument(
        "--source", default=TRITON, help="what to clone: a URL or a full clone; default: Triton"
    )
    parser.add_argument("--since", help="oldest commit to measure; default: all of main")
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--only", type=Path, help="a HASHFILE: these commits, in its order")
    parser.add_argument("--limit", type=int, help="try at most so many commits in this run")
    parser.add_argument("--retry-failed", action="store_true", help="try commits again that failed for good")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error("--limit: at least 1")
    return options


def _read_hashfile(path: Path, line: Sequence[LandedCommit], console: Console) -> list[str]:
    """The commits of a shard. One that was pushed away since it was made is said and left out."""
    wanted = list(dict.fromkeys(path.read_text().split()))
    on_line = {commit.sha for commit in line}
    if unknown := [sha for sha in wanted if sha not in on_line]:
        names = ", ".join(sha[:10] for sha in unknown[:5])
        console.print(f"warning: {path}: {len(unknown)} are no commits of main: {names}", markup=False)
    if not set(wanted) & on_line:
        raise TrackerError(f"{path}: no commit of main in it: make it with scripts.select_commits")
    return wanted


def _say(console: Console, outcome: Outcome) -> None:
    name = outcome.chosen.commit.sha[:10]
    if outcome.failure is None:
        console.print(f"{name}: measured", highlight=False)
        return
    again = "tried again later" if outcome.failure.transient else "not tried again: --retry-failed"
    line = f"{name}: NOT MEASURED: {outcome.failure.reason} ({again})"
    console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)


def _conclude(console: Console, workspace: CommitsWorkspace) -> None:
    """Findings of all that is measured by now, and where the rest is."""
    history = load_history(workspace)
    if not history.measurements and not history.problems:
        console.print("Nothing is measured yet.", highlight=False)
        return
    judgement = judge(history)
    print_table(console, judgement, history)
    print_summary(console, judgement, history)
    page = write_report(workspace, judgement, history)
    comments = write_comments(workspace, judgement, history)
    console.print(f"\nReport:   {page}", highlight=False, soft_wrap=True)
    console.print(f"Comments: {comments} (dry run: nothing is posted)", highlight=False, soft_wrap=True)
    if history.problems:
        raise TrackerError("; ".join(map(str, history.problems)))


if __name__ == "__main__":
    sys.exit(run_command(main))
