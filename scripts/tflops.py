"""Print TFLOP/s of the whole backward, commits side by side.

    python -m scripts.tflops --commits 3.1.0 3.2.0 3.9.0
    python -m scripts.tflops --head-dim 128 --variants atomic_add two_pass

As a Markdown table; variants and n_ctx are those of issue 4717. At head_dim 64 the issue's own figures stand
beside ours; torch's attention (flash, cuDNN) stands below, from the same session. "n/a": not measured, or not
there in that release.

Exit status: 0 printed, 2 a commit is not timed or a file is damaged.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.results import read_commits, read_flops, read_results, read_variants
from scripts.tracker.tflops import Issue, Row, medians_s, read_issue, rows_of, tflops_json
from scripts.tracker.timed_results import BACKWARD_BENCHMARK, CANARY_BENCHMARK
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    workspace, issue = Workspace(ROOT), read_issue()
    parser = command_parser("tflops", __doc__)
    parser.add_argument("--commits", nargs="+", help="labels or hashes; default: the first and last timed")
    parser.add_argument("--variants", nargs="+", default=list(issue.tflops))
    parser.add_argument("--head-dim", type=int, default=issue.head_dim)
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    options = parser.parse_args()
    rows = _rows(workspace, issue, options)
    if options.format == "json":
        print(tflops_json(options.head_dim, issue.n_ctx, rows))
        return 0
    print("| TFLOP/s | | " + " | ".join(map(str, issue.n_ctx)) + " |")
    print("|---|---|" + "---:|" * len(issue.n_ctx))
    for row in rows:
        cells = ["n/a" if value is None else f"{value:.0f}" for value in row.tflops]
        print(f"| `{row.name}` | {row.where} | " + " | ".join(cells) + " |")
    return 0


def _rows(workspace: Workspace, issue: Issue, options: argparse.Namespace) -> list[Row]:
    """Raises TrackerError for a commit or variant that is not there."""
    results = [r for root in (workspace.results, workspace.recorded) for r in read_results(root)[0]]
    medians = medians_s(results, BACKWARD_BENCHMARK)
    timed = [c for c in read_commits(workspace.recorded) if any(key[0] == c.commit for key in medians)]
    if not timed:
        raise TrackerError("no commit is timed: make time, or restore benchmarks/recorded from git")
    wanted = options.commits or [timed[0].label, timed[-1].label]
    commits = [(c.commit, c.label) for c in timed if {c.label, c.commit} & set(wanted)]
    known = {word for pair in commits for word in pair}
    if unknown := [word for word in wanted if word not in known]:
        raise TrackerError(f"not timed: {', '.join(unknown)}; timed: {', '.join(c.label for c in timed)}")
    if unknown := [v for v in options.variants if v not in read_variants(workspace.recorded)]:
        raise TrackerError(f"no such variant: {', '.join(unknown)}")
    flops = read_flops(workspace.recorded)
    rows: list[Row] = []
    for variant in options.variants:
        if variant in issue.tflops and options.head_dim == issue.head_dim:
            rows.append(Row(variant, f"{issue.device}, issue 4717", tuple(issue.tflops[variant])))
        rows += rows_of(medians, flops, commits, [variant], issue.n_ctx, options.head_dim)
    torch = [(commits[-1][0], f"torch, beside {commits[-1][1]}")]
    canaries = medians_s(results, CANARY_BENCHMARK)
    return rows + rows_of(canaries, flops, torch, ["sdpa_flash", "sdpa_cudnn"], issue.n_ctx, options.head_dim)


if __name__ == "__main__":
    sys.exit(run_command(main))
