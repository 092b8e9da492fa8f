"""Write what a machine with a GPU shall confirm.

    python -m scripts.request_confirmations --out FOLDER
    python -m scripts.request_confirmations --out FOLDER --commits

One request for each group that waits for other sessions, about the finding that moved most. What has an
answer already is not asked again.

Exit status: 0 written (even if none), 2 could not judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.chart import worst_of
from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.model import Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.posts import Judged
from scripts.tracker.request import make_request, write_request
from scripts.tracker.saying import judge_groups
from scripts.tracker.workspace import workspace_of

ROOT = Path(__file__).resolve().parent.parent
_MOST = 20  # each takes the GPU for up to policy.toml's budget, a minute


def main() -> int:
    parser = command_parser("request_confirmations", __doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the requests, a file a finding")
    parser.add_argument("--most", type=int, default=_MOST, help=f"at most so many; default: {_MOST}")
    parser.add_argument("--commits", action="store_true", help="of the commits of main, not of releases")
    options = parser.parse_args()
    workspace = workspace_of(ROOT, options.commits)
    history = load_history(workspace)
    groups = judge_groups(workspace, judge(history), history, None)
    policy = read_policy()
    verdicts = policy.comment.issue_verdicts
    waiting = sorted((one for one in groups.judged if _waits(one, verdicts)), key=lambda one: one.weight)
    options.out.mkdir(parents=True, exist_ok=True)
    for one in waiting[: options.most]:
        finding = worst_of(one.group)
        if finding is None:
            continue
        try:
            request = make_request(finding, workspace.evidence, history.variants, policy.confirm)
        except TrackerError as error:
            print(f"cannot be confirmed here: {error}", file=sys.stderr)
            continue
        write_request(options.out / f"{finding.id}.json", request)
        print(options.out / f"{finding.id}.json")
    if len(waiting) > options.most:
        print(f"{len(waiting) - options.most} more wait for the next run", file=sys.stderr)
    return 0


def _waits(one: Judged, verdicts: tuple[Verdict, ...]) -> bool:
    """Whether other sessions could say more: time is claimed, somebody would be told, nobody asked yet."""
    timed = worst_of(one.group) is not None
    return timed and one.group.verdict in verdicts and not one.standing.answers


if __name__ == "__main__":
    sys.exit(run_command(main))
