"""Time compiled commits side by side on this machine's GPU.

    make time                                     # every compiled release
    make time RELEASES="3.8.0 3.9.0" GPUS=all
    python -m scripts.time_commits --plan-only FILE    # for a GPU machine

The samples are kept as asv results. All commits and variants of a case are timed in one process, block by
block (`benchmarks.session`). What an earlier session of this GPU and driver timed already costs nothing,
unless --fresh asks for it; an interrupted run goes on where it stopped.

Exit status: 0 all was timed, 1 some cases were not (the reason is printed), 130 stopped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.processes import run_gpu_session
from scripts.tracker.results import read_commits
from scripts.tracker.store import atomic_write
from scripts.tracker.timing_run import Effort, make_plan, record_folder, suite_choices
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    workspace = Workspace(ROOT)
    variants, n_ctx, head_dims = suite_choices(ROOT)
    parser = command_parser("time_commits", __doc__)
    parser.add_argument("--releases", default="", help="labels or commits; default: all that are compiled")
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
    parser.add_argument("--plan-only", type=Path, metavar="FILE", help="write the plan there, time nothing")
    options = parser.parse_args()
    chosen = options.releases.replace(",", " ").split()
    known = [c for c in read_commits(workspace.results) if not chosen or {c.label, c.commit} & set(chosen)]
    if unknown := [w for w in chosen if not any(w in (c.label, c.commit) for c in known)]:
        raise TrackerError(f'unknown: {", ".join(unknown)}; make track RELEASES="{options.releases}" first')
    compiled = [c for c in known if workspace.evidence.count_records(TIMED_TARGET, c.commit)]
    effort = Effort(options.blocks[0], options.blocks[1], options.backward_blocks, options.budget_s)
    plan = make_plan(
        workspace,
        known if chosen else compiled,
        options.variants,
        options.head_dim,
        options.n_ctx,
        effort,
        options.fresh,
    )
    if options.plan_only:
        atomic_write(options.plan_only, json.dumps(plan, indent=1).encode())
        print(f"{options.plan_only}: {len(plan['commits'])} commits, {len(plan['cases'])} cases")
        return 0
    status = run_gpu_session(ROOT, options.python, plan, ["--gpus", options.gpus] if options.gpus else [])
    if status == 0:
        print(record_folder(workspace, Path(plan["out"]), workspace.results))
    return status


if __name__ == "__main__":
    sys.exit(run_command(main))
