"""Print how often the detector is wrong.

    python -m scripts.replay              # simulated worlds, and the recorded
    python -m scripts.replay --speed 5000 # the seconds of so many commits

Histories with known truth are played through the shipped detector. Deterministic but for the seconds.

Exit status: 0, or 2 if something could not be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import run_command
from scripts.tracker.policy import read_policy
from scripts.tracker.replay import score
from scripts.tracker.replay_report import print_score, print_speed, recorded_facts
from scripts.tracker.speed import measure
from scripts.tracker.terminal import terminal
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = command_parser("replay", __doc__)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--worlds", type=int, default=4, metavar="N", help="of each kind and size")
    parser.add_argument("--speed", type=int, metavar="COMMITS", help="time a long history instead")
    options = parser.parse_args()
    if options.worlds < 1 or (options.speed is not None and options.speed < 100):
        parser.error("at least 1 world, and at least 100 commits")
    policy = read_policy().detection
    console = terminal()
    if options.speed is not None:
        print("making the history, detecting, then asv publish: minutes", file=sys.stderr, flush=True)
        speed = measure(options.speed, policy, beside_asv=True)
        print(json.dumps(asdict(speed), indent=1)) if options.format == "json" else print_speed(
            console, speed
        )
        return 0
    print("simulating histories: about a minute", file=sys.stderr, flush=True)
    recorded = recorded_facts(Workspace(ROOT))
    simulated = score(options.worlds, policy)
    if options.format == "json":
        document = {
            "schema": 1,
            "simulated": asdict(simulated),
            "recorded": asdict(recorded) if recorded else None,
        }
        print(json.dumps(document, indent=1))
    else:
        print_score(console, simulated, recorded)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
