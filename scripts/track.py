"""Measure Triton's releases, judge, and write the report.

    make track RELEASES="3.8.0 3.9.0"
    python -m scripts.track --releases "3.8.0 3.9.0"

Exit status: 0 done (findings or not), 1 some release could not be measured, 2 could not judge, 130 stopped.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from scripts.comment_on_prs import write_comments
from scripts.report import write_report
from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.harness import AsvHarness, record_failure, write_json
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.model import Commit
from scripts.tracker.processes import only_one
from scripts.tracker.progress import RunProgress
from scripts.tracker.releases import Release, choose_releases, wheelhouse, write_history
from scripts.tracker.report import print_summary, print_table
from scripts.tracker.results import read_failures
from scripts.tracker.terminal import terminal
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
# One installed Triton, one wheel, asv's environment and results; seen 1.6 GB at most.
_NEEDED_GB = 3


def main() -> int:
    parser = command_parser("track", __doc__)
    parser.add_argument(
        "--releases", default="", help='like "3.1.0 3.2.0"; default: newest patch of each minor'
    )
    parser.add_argument("--targets", default="cuda:90", help="cuda:80, cuda:90, cuda:100, or several")
    parser.add_argument("--retry-failed", action="store_true", help="try releases again that cannot be built")
    options = parser.parse_args()
    console = terminal()
    workspace = Workspace(ROOT)
    targets = options.targets.replace(",", " ").split()
    if not targets:
        raise TrackerError('TARGETS is empty: name one, like make track TARGETS="cuda:90"')
    with only_one(workspace) as lock:
        releases = choose_releases(options.releases, workspace.cache)
        failed = False
        for target in targets:
            failed |= _measure(console, workspace, releases, target, options.retry_failed, lock)
        judged = _conclude(console, workspace, releases if options.releases.split() else None)
    return judged or int(failed)


def _measure(
    console: Console,
    workspace: Workspace,
    releases: list[Release],
    target: str,
    retry_failed: bool,
    lock: int,
) -> bool:
    """Measure what is missing. True if some release could not be measured."""
    repository = workspace.cache / "releases.git"
    commit_of = write_history(repository, workspace.cache)
    harness = AsvHarness(workspace, repository, target, lock)
    commits = [Commit(commit, version) for version, commit in commit_of.items()]
    write_json(workspace.results / "commits.json", commits)
    write_json(workspace.results / "variants.json", harness.suite.variants)

    missing = [r for r in releases if not harness.is_done(commit_of[r.version])]
    known_failures = {} if retry_failed else read_failures(workspace.results).get(target, {})
    hopeless = {commit for commit, failure in known_failures.items() if not failure.transient}
    todo = [r for r in missing if commit_of[r.version] not in hopeless]
    failed = len(todo) < len(missing)
    _announce(console, workspace, releases, todo, len(releases) - len(missing), target)
    for release in missing:
        if release not in todo:
            reason = known_failures[commit_of[release.version]].reason
            line = (
                f"Triton {release.version}: NOT MEASURED, failed before: {reason} (again: make track RETRY=1)"
            )
            console.print(line, style="red", highlight=False, markup=False)
    progress = RunProgress(console, len(todo))
    for release in todo:
        started_s = time.monotonic()
        commit = Commit(commit_of[release.version], release.version)
        with progress.step(f"Triton {release.version}", harness.suite.records) as on_tick:
            failure = harness.measure(commit, on_tick)
        record_failure(workspace.results, target, commit.commit, failure)
        shutil.rmtree(wheelhouse(workspace.cache), ignore_errors=True)
        took = f"{time.monotonic() - started_s:.0f} s"
        measured = harness.existing(commit.commit)
        if failure or not measured:
            failed = True
            reason = failure.reason if failure else "its result vanished"
            line = f"Triton {release.version}: NOT MEASURED after {took}: {reason}"
            console.print(line, style="red", highlight=False, markup=False)
        else:
            compiling = f"{measured.setup_duration_s:.0f} s of it compiling"
            console.print(f"Triton {release.version}: measured in {took}, {compiling}", highlight=False)
    if todo:
        console.print(f"Peak memory: {harness.peak_memory_bytes / 1e9:.1f} GB", highlight=False)
    return failed


def _announce(
    console: Console,
    workspace: Workspace,
    releases: list[Release],
    todo: list[Release],
    done: int,
    target: str,
) -> None:
    """What will be done and downloaded, before anything is."""
    names = ", ".join(release.version for release in releases)
    console.print(f"Triton releases for {target}: {names}", highlight=False)
    console.print(f"{done} of {len(releases)} need no work.", highlight=False)
    if not todo:
        return
    megabytes = sum(release.wheel_mb for release in todo)
    console.print(
        f"To measure: {len(todo)}. Download: about {megabytes / 1000:.1f} GB of wheels, one at a time"
        " (only the last is kept), and 0.1 GB for the environment.",
        highlight=False,
    )
    free_gb = shutil.disk_usage(workspace.root).free / 1e9
    if free_gb < _NEEDED_GB:
        raise TrackerError(
            f"{workspace.root}: {free_gb:.1f} GB free, a run needs {_NEEDED_GB} GB: free some space"
        )


def _conclude(console: Console, workspace: Workspace, only: list[Release] | None) -> int:
    """Judge what is measured (of the asked releases, if some were asked for), and say where everything is."""
    history = load_history(workspace)
    if only is not None:
        labels = {release.version for release in only}
        history.only({c.commit for c in history.commits if c.label in labels})
    judgement = judge(history)
    console.print()
    print_table(console, judgement, history)
    print_summary(console, judgement, history)
    if only is not None:
        what = "these releases alone" if len(only) > 1 else "one release: nothing to compare it with"
        console.print(f"  note: the report covers {what}; make report: everything", highlight=False)
    comments = write_comments(workspace, judgement, history)
    page = write_report(workspace, judgement, history)
    console.print(f"\nReport:   {page}", highlight=False, soft_wrap=True)
    console.print(f"Comments: {comments} (dry run: nothing is posted)", highlight=False, soft_wrap=True)
    console.print(f"Results:  {workspace.results} (asv's format)", highlight=False, soft_wrap=True)
    console.print(f"Evidence: {workspace.evidence.root} (texts and cubins)", highlight=False, soft_wrap=True)
    chosen = f' --releases "{" ".join(r.version for r in only)}"' if only is not None else ""
    command = f".venv/bin/python -m scripts.flag_regressions --format json{chosen}"
    console.print(f"As JSON:  {command}", highlight=False, soft_wrap=True, markup=False)
    return EXIT_CANNOT_JUDGE if history.problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
