"""Write asv's own pages of the commits of main.

    python -m scripts.publish_asv

Every benchmark's graph over the commits, in .asv/commits/html. It needs the clone of Triton in
.cache/triton.git.

Exit status: 0 written, 2 cannot.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.tracker.asv_pages import benchmark_list
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import CLONE
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.harness import derive_config, describe_suite
from scripts.tracker.merging_timed import TIMED_MODULES
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parent.parent
_DEADLINE_S = 1500.0  # 183 s for 5,000 commits, 40 cases and 9 variants on two cores


def main() -> int:
    parser = command_parser("publish_asv", __doc__)
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args()
    workspace = CommitsWorkspace(ROOT)
    clone = workspace.cache / CLONE
    if not clone.is_dir():
        raise TrackerError(f"{clone}: no clone of Triton, so no order of commits: make follow makes one")
    if not any(workspace.results.glob("*/*-*.json")):
        raise TrackerError(f"{workspace.results}: nothing is measured yet: run make follow first")
    html = workspace.report.parent / "html"
    suites = [
        describe_suite(ROOT, module, options.target) for module in ("benchmarks.codegen", *TIMED_MODULES)
    ]
    # Not as a worker's asv found them: the list's words stand in the pages.
    atomic_write(workspace.results / "benchmarks.json", json.dumps(benchmark_list(suites)).encode())
    config = derive_config(ROOT / "asv.conf.json", clone, workspace.results) | {"html_dir": str(html)}
    config_file = workspace.cache / "asv-publish.conf.json"
    atomic_write(config_file, json.dumps(config, indent=1).encode())
    try:
        done = subprocess.run(  # noqa: S603 - asv of our own environment
            [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", str(config_file)],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=_DEADLINE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TrackerError(f"asv publish took more than {_DEADLINE_S:g} s; is the machine busy?") from error
    page = html / "index.html"
    if done.returncode != 0 or not page.exists():
        last = (f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["no message"])[-1]
        raise TrackerError(f"asv publish failed: {last[:300]}")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
