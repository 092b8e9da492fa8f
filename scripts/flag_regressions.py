"""Judge what was measured and print the findings.

    python -m scripts.flag_regressions --format json
    python -m scripts.flag_regressions --releases "3.8.0 3.9.0"
    python -m scripts.flag_regressions --benchmark-json old.json new.json

--benchmark-json: of files that `pytest benchmarks/local --benchmark-json FILE` wrote, and nothing else.

Exit status: 0 no finding, 1 findings, 2 could not judge (nothing measured, or a file is damaged).
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.benchmark_files import read_benchmark_files
from scripts.tracker.command_line import command_parser
from scripts.tracker.comment import render_all
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.harness import describe_suite
from scripts.tracker.judge import TIMED_TARGET, judge
from scripts.tracker.measured import load_history
from scripts.tracker.report import findings_json, print_summary, print_table
from scripts.tracker.saying import standings_of
from scripts.tracker.terminal import terminal
from scripts.tracker.timing_run import SUITES
from scripts.tracker.workspace import workspace_of

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = command_parser("flag_regressions", __doc__)
    parser.add_argument("--format", choices=["table", "json", "markdown"], default="table")
    parser.add_argument("--releases", default="", help='only what was measured of these, like "3.8.0 3.9.0"')
    parser.add_argument(
        "--commits",
        action="store_true",
        help="judge the commits of main that make follow measured, not releases",
    )
    parser.add_argument(
        "--benchmark-json", nargs="+", type=Path, metavar="FILE", help="pytest-benchmark's, oldest first"
    )
    options = parser.parse_args()
    if options.benchmark_json and (options.commits or options.releases):
        parser.error("--benchmark-json: judges these files alone, so no --releases and no --commits")
    workspace = workspace_of(ROOT, options.commits)
    if options.benchmark_json:
        suite = describe_suite(ROOT, SUITES[0], TIMED_TARGET)
        history = read_benchmark_files(options.benchmark_json, dict(suite.variants))
    else:
        history = load_history(workspace)
    if chosen := set(options.releases.replace(",", " ").split()):
        if unknown := chosen - {c.label for c in history.commits}:
            raise TrackerError(f"unknown releases: {', '.join(sorted(unknown))}; make track measures them")
        history.only({c.commit for c in history.commits if c.label in chosen})
    judgement = judge(history)
    if options.format == "json":
        print(findings_json(judgement))
    elif options.format == "markdown":
        standings = standings_of(workspace, judgement, history)
        print("\n\n---\n\n".join(render_all(judgement.findings, history, standings).values()))
    else:
        print_table(terminal(), judgement, history)
    # Findings go to stdout alone, so that another tool can read them.
    print_summary(terminal(stderr=True), judgement, history)
    if history.problems:
        return EXIT_CANNOT_JUDGE
    return 1 if judgement.findings else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
