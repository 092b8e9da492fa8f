"""Time compiled commits side by side on this machine's GPU.

    make time                                     # every compiled release
    make time RELEASES="3.8.0 3.9.0" GPUS=all
    make time COMMITS="--limit 10"                # followed commits of main
    python -m scripts.time_commits --plan-only FILE    # for a GPU machine

The samples are kept as asv results. All commits and variants of a case are timed in one process, block by
block (`benchmarks.session`). What an earlier session of this GPU and driver timed already costs nothing,
unless --fresh asks for it; an interrupted run goes on where it stopped.

--commits: each followed commit whose code differs from that of the measured commit before it, in a session
with that parent and the anchor. Newest first, because a change of today can still be talked about; commits
with their parent's code share its time and cost nothing. --plan-only FOLDER then writes all that another
machine needs: for each file of FOLDER/plans `python -m benchmarks.session FILE` there; what it leaves in
FOLDER/sessions is recorded by `scripts.record_sessions --commits FOLDER/sessions` here.

Exit status: 0 all was timed, 1 some cases were not (the reason is printed), 130 stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from scripts.tracker.change_sessions import Choice
from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import Commit
from scripts.tracker.processes import GPU_LOCK_FILE, only_one, run_gpu_session
from scripts.tracker.recording import record_folder
from scripts.tracker.results import read_commits
from scripts.tracker.store import atomic_write
from scripts.tracker.time_changes import ChangeTimer
from scripts.tracker.timing_run import Effort, make_plan, suite_choices
from scripts.tracker.workspace import CommitsWorkspace, Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    variants, n_ctx, head_dims = suite_choices(ROOT)
    options = _options(variants, n_ctx, head_dims)
    effort = Effort(options.blocks[0], options.blocks[1], options.backward_blocks, options.budget_s)
    gpus = ["--gpus", options.gpus] if options.gpus else []
    choice = Choice(options.variants, options.head_dim, options.n_ctx)
    if options.commits:
        timer = ChangeTimer(CommitsWorkspace(ROOT), choice, effort, options.fresh, print)
        if options.plan_only:
            return timer.write_plans(options.plan_only, options.limit)
        return timer.run(options.python, gpus, options.limit)
    workspace = Workspace(ROOT)
    commits = _releases(workspace, options.releases)
    plan = make_plan(
        workspace, commits, choice.variants, choice.head_dims, choice.n_ctx, effort, options.fresh
    )
    if options.plan_only:
        atomic_write(options.plan_only, json.dumps(plan, indent=1).encode())
        print(f"{options.plan_only}: {len(plan['commits'])} commits, {len(plan['cases'])} cases")
        return 0
    with only_one(workspace, GPU_LOCK_FILE) as lock:
        status = run_gpu_session(ROOT, options.python, plan, gpus, lock)
        if status == 0:
            print(record_folder(workspace, Path(plan["out"]), workspace.results))
    return status


def _options(variants: list[str], n_ctx: list[int], head_dims: list[int]) -> argparse.Namespace:
    parser = command_parser("time_commits", __doc__)
    parser.add_argument("--releases", default="", help="labels or commits; default: all that are compiled")
    parser.add_argument("--commits", action="store_true", help="commits of main, not releases")
    parser.add_argument("--limit", type=int, help="with --commits: at most so many changes in this run")
    parser.add_argument("--variants", nargs="+", choices=variants, default=variants, metavar="VARIANT")
    parser.add_argument("--head-dim", nargs="+", type=int, choices=head_dims, default=head_dims)
    parser.add_argument(
        "--n-ctx", nargs="+", type=int, choices=n_ctx, metavar="N", default=n_ctx, help=f"of {n_ctx}"
    )
    parser.add_argument("--blocks", nargs=2, type=int, default=(8, 20), metavar=("LEAST", "MOST"))
    parser.add_argument("--backward-blocks", type=int, default=5, help="of the whole backward")
    parser.add_argument("--budget-s", type=float, default=600.0, help="seconds in all, then it stops")
    parser.add_argument("--gpus", default="", help="UUIDs with commas, or all; default: the first")
    parser.add_argument("--fresh", action="store_true", help="time again what an earlier session timed")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-gpu" / "bin" / "python")
    parser.add_argument(
        "--plan-only", type=Path, metavar="FILE", help="write the plan there (a folder with --commits)"
    )
    options = parser.parse_args()
    if options.commits and (options.releases or options.variants != variants):
        parser.error("--commits: all variants of commits of main, so no --releases and no --variants")
    if options.limit is not None and (options.limit < 1 or not options.commits):
        parser.error("--limit: at least 1, with --commits")
    return options


def _releases(workspace: Workspace, releases: str) -> list[Commit]:
    """Those that are asked for, or all that are compiled. Raises TrackerError for one that is not known."""
    chosen = releases.replace(",", " ").split()
    known = [c for c in read_commits(workspace.results) if not chosen or {c.label, c.commit} & set(chosen)]
    if unknown := [w for w in chosen if not any(w in (c.label, c.commit) for c in known)]:
        raise TrackerError(f'unknown: {", ".join(unknown)}; make track RELEASES="{releases}" first')
    if chosen:
        return known
    return [c for c in known if workspace.evidence.count_records(TIMED_TARGET, c.commit)]


if __name__ == "__main__":
    sys.exit(run_command(main))
