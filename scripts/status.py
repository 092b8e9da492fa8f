"""Say where following Triton's main stands.

    make status
    python -m scripts.status --stale-days 7

Changes nothing, and may be asked while a run goes on.

Exit status: 0 all is well, 1 stale (nothing new for --stale-days), 2 cannot tell.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.code_digest import measured_commits
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import CLONE, find_history
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.follow_state import read_state
from scripts.tracker.follow_status import FollowStatus, days, status_json, status_of
from scripts.tracker.harness import describe_suite, machine_name
from scripts.tracker.history import LandedCommit
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import MeasurementStatus
from scripts.tracker.processes import LOCK_FILE, holder, is_locked
from scripts.tracker.results import read_failures, read_results
from scripts.tracker.selection import read_selection_rules, select, since
from scripts.tracker.timed_results import timing_measurements
from scripts.tracker.timing_backlog import TimingBacklog, in_numbers, read_backlog
from scripts.tracker.timing_run import SUITES, cases_of
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    options = _options()
    workspace = CommitsWorkspace(ROOT)
    now = datetime.datetime.now(datetime.UTC)
    status = _collect(workspace, options.target, options.since)
    lock = workspace.cache / LOCK_FILE
    at_work = holder(lock) if is_locked(lock) else None
    why = status.stale(now, datetime.timedelta(days=options.stale_days))
    if options.format == "json":
        print(status_json(status, at_work, why))
        return int(why is not None)
    _print(status, now)
    print(f"at work now:     {at_work or 'nobody'}")
    if why:
        print(f"STALE: {why}")
    return int(why is not None)


def _options() -> argparse.Namespace:
    parser = command_parser("status", __doc__)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--since", help="as make follow was told")
    parser.add_argument("--stale-days", type=float, default=3.0, help="default 3: main changes every day")
    options = parser.parse_args()
    if not 0 < options.stale_days < 10000:
        parser.error("--stale-days: more than 0")
    return options


def _collect(workspace: CommitsWorkspace, target: str, oldest: str | None) -> FollowStatus:
    history = find_history(workspace.cache)
    if history is None:
        raise TrackerError(f"{workspace.cache / 'triton.git'}: no clone of Triton yet; run make follow first")
    line = since(history.main_line(), oldest)
    suite = describe_suite(ROOT, "benchmarks.codegen", target)
    folder = workspace.results / machine_name(target)
    measured = measured_commits(folder, suite, workspace.evidence)
    failures = read_failures(workspace.results).get(target, {})
    given_up = {commit for commit, failure in failures.items() if not failure.transient}
    selection = select(line, read_selection_rules(read_rules()), target, measured, given_up)
    results, errors = read_results(workspace.results)
    for error in errors:
        print(f"warning: {error}", file=sys.stderr)
    timed = {t.commit for r in results for t in timing_measurements(r) if t.status is MeasurementStatus.OK}
    refreshed_at = read_state(workspace.results).refreshed_at or _made_at(workspace.cache / CLONE)
    gpu = _gpu(workspace)
    return status_of(line, selection, results, set(measured), timed, gpu, failures, refreshed_at)


def _gpu(workspace: CommitsWorkspace) -> TimingBacklog:
    """What has its GPU time, shares it or waits; damaged files are warned of by the caller."""
    suite = describe_suite(ROOT, SUITES[0], TIMED_TARGET)
    return read_backlog(workspace, TIMED_TARGET, suite.version, cases_of(suite))[0]


def _made_at(clone: Path) -> datetime.datetime | None:
    """When a clone was made that nobody follows: a checkout that took only the results has no books."""
    if not (clone / "HEAD").exists():
        return None
    return datetime.datetime.fromtimestamp((clone / "HEAD").stat().st_mtime, datetime.UTC)


def _print(status: FollowStatus, now: datetime.datetime) -> None:
    ago = f", looked at {days(now - status.refreshed_at)} ago" if status.refreshed_at else ""
    backlog = ", ".join(f"{count} {why.value}" for why, count in sorted(status.backlog.items()))
    failures = ", ".join(f"{count} {kind}" for kind, count in sorted(status.failures.items()))
    last = f"{days(now - status.last_result)} ago" if status.last_result else "never"
    print(f"newest seen:     {_named(status.seen)}{ago}")
    print(f"newest measured: {_named(status.measured)}")
    print(f"newest timed:    {_named(status.timed)}")
    print(f"compiled:        {status.compiled} commits")
    print(f"GPU time:        {in_numbers(status.gpu)}")
    print(f"not applicable:  {status.not_applicable} commits share their parent's measurement")
    print(f"not on main:     {status.orphans} measured commits")
    print(f"backlog:         {backlog or 'nothing'}")
    print(f"failures:        {failures or 'none'}; of them {status.waiting} are tried again")
    print(f"last new result: {last}")


def _named(commit: LandedCommit | None) -> str:
    """The subject is other people's text: only what a terminal can show without harm."""
    if commit is None:
        return "none"
    subject = "".join(c for c in commit.subject if c.isprintable())[:70]
    return f"{commit.sha[:10]} {commit.date:%Y-%m-%d} {subject}"


if __name__ == "__main__":
    sys.exit(run_command(main))
