"""Settle a suspicion on the GPU, both sides side by side.

    python -m scripts.confirm FINDING         # writes a request without a GPU
    python -m scripts.confirm --request FILE  # executes it

FINDING: an id of `flag_regressions --format json`, with --commits if that had it. Their kernels are timed in
fresh processes until it is known. The answer is DIFFERENT, SAME or UNKNOWN (the budget ended first), with the
change, its interval and both legs in milliseconds. It is kept beside the results.

Exit status: 0 SAME (or a request was written), 1 DIFFERENT, 2 could not be measured, 3 UNKNOWN.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from scripts.tracker.command_line import command_parser
from scripts.tracker.confirmation import confirm
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.model import Confirmation, Decision
from scripts.tracker.policy import read_policy
from scripts.tracker.processes import run_gpu_session
from scripts.tracker.request import Request, make_request, plan_of, read_request, unpack, write_request
from scripts.tracker.session_files import SessionFile, read_sessions
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import Workspace, workspace_of

ROOT = Path(__file__).resolve().parent.parent
DRIVER = Path("/dev/nvidiactl")  # there as soon as NVIDIA's driver is loaded
_EXIT = {Decision.SAME: 0, Decision.DIFFERENT: 1, Decision.UNKNOWN: 3}


def main() -> int:
    options = _options()
    workspace = workspace_of(ROOT, options.commits)
    path = options.request
    for folder in (workspace.confirmations, workspace.recorded / "confirmations"):
        if options.finding and (folder / f"{options.finding}.json").exists():
            print(
                f"It has an answer already: {folder / options.finding}.json\n"
                "Asked anew; that answer stays in use until the new one is there.",
                file=sys.stderr,
            )
    request = read_request(path) if path else _request_of(workspace, options.finding)
    if options.write or not (path or DRIVER.exists()):
        target = options.write or workspace.requests / f"{request.finding}.json"
        write_request(target, request)
        print(
            f"Written: {target}\n"
            "On a machine with a GPU, with this file there:\n"
            f"    .venv/bin/python -m scripts.confirm --request {target.name}"
        )
        return 0
    answer = measure(request, options.python)
    path = (options.out or workspace.confirmations) / f"{answer.finding}.json"
    document = msgspec.json.format(msgspec.json.encode(answer))
    atomic_write(path, document + b"\n")
    if options.format == "json":
        print(document.decode())
    else:
        print(*describe(request, answer), path, sep="\n")
    return _EXIT[answer.decision]


def _options() -> argparse.Namespace:
    parser = command_parser("confirm", __doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("finding", nargs="?", help="id of a finding")
    what.add_argument("--request", type=Path, help="a file that --write made")
    parser.add_argument("--commits", action="store_true", help="of commits of main, not of releases")
    parser.add_argument("--write", type=Path, metavar="FILE", help="only write the request, also with a GPU")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="of an answer")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-gpu" / "bin" / "python")
    parser.add_argument("--out", type=Path, help="folder of the answer; default: beside the results")
    return parser.parse_args()


def _request_of(workspace: Workspace, finding: str) -> Request:
    # Only here: a machine that executes requests has neither results nor asv to read them.
    from scripts.tracker.judge import judge
    from scripts.tracker.measured import load_history

    history = load_history(workspace)
    known = {found.id: found for found in judge(history).findings}
    if finding not in known:
        raise TrackerError(
            f"no finding {finding}: flag_regressions --format json lists them (with --commits: those of main)"
        )
    return make_request(known[finding], workspace.evidence, history.variants, read_policy().confirm)


def measure(request: Request, python: Path) -> Confirmation:
    """Sessions until the answer is known or the budget is spent. Raises TrackerError if none was possible."""
    policy = read_policy()
    sessions: list[SessionFile] = []
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        unpack(request, store)
        while True:
            out = Path(folder) / f"session-{len(sessions) + 1}"
            plan = plan_of(request, store, out, len(sessions) + 1, policy.confirm)
            if run_gpu_session(ROOT, python, plan, []) != 0:
                raise TrackerError("the session failed, its reason is above")
            sessions += read_sessions(out)
            answer = confirm(request.question, sessions, policy.timing, policy.confirm)
            spent_s = time.monotonic() - started_s
            next_s = spent_s * (len(sessions) + 1) / len(sessions)
            if answer.decision is not Decision.UNKNOWN or len(sessions) == policy.confirm.max_sessions:
                return answer
            if len(sessions) >= policy.confirm.min_sessions and next_s > policy.confirm.budget_s:
                return answer


def describe(request: Request, answer: Confirmation) -> list[str]:
    """The answer in lines of 80 columns."""
    case = request.case
    lines = [
        f"{answer.decision}: {request.candidate} against {request.reference}, {request.before.label} -> "
        f"{request.after.label}",
        f"head_dim {case['head_dim']}, n_ctx {case['n_ctx']}, {answer.gpu}, driver {answer.driver}",
        f"{answer.sessions} sessions; of the {answer.of}: {answer.reason}",
    ]
    for leg in answer.legs:
        e = leg.effect
        lines.append(
            f"  {leg.variant:20} {leg.before_s * 1e3:9.3f} -> {leg.after_s * 1e3:9.3f} ms  "
            f"{e.change:+7.2%} ({e.low:+.2%} to {e.high:+.2%})"
        )
    e = answer.ratio
    lines.append(f"  {'ratio':20} {'':25}  {e.change:+7.2%} ({e.low:+.2%} to {e.high:+.2%})")
    return lines


if __name__ == "__main__":
    sys.exit(run_command(main))
