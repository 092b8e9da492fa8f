"""Count how often the order of compilation changes the code.

    python -m scripts.check_compile_order --releases "3.3.1"

Release by release. Makes a throw-away environment for each release and runs `python -m kernels.compile_order`
in it.

Exit status: 0 done, 2 a release could not be tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path
from typing import Any

import json5

from scripts.tracker.command_line import WIDTH, command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.releases import choose_releases
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def measure_release(version: str, requirements: list[str]) -> dict[str, Any]:
    """What `kernels.compile_order` says in an environment with this release. Raises TrackerError."""
    with tempfile.TemporaryDirectory(prefix="atomwatch-order-") as scratch:
        venv.create(scratch, with_pip=True)
        python = f"{scratch}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", *requirements]
        for command in ([*install, f"triton=={version}"], [python, "-m", "kernels.compile_order"]):
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode != 0:
                raise TrackerError(f"Triton {version}: {' '.join(command)} failed: {done.stderr[-500:]}")
    return dict(json.loads(done.stdout))


def main() -> int:
    parser = command_parser("check_compile_order", __doc__)
    parser.add_argument(
        "--releases", default="", help='like "3.3.1 3.4.0"; default: newest patch of each minor'
    )
    options = parser.parse_args()
    pins = json5.loads((ROOT / "asv.conf.json").read_text())["matrix"]["req"]
    requirements = [f"{name}=={pins[name][0]}" for name in pins if not name.startswith("pip+")]
    print(f"{'Triton':8} kernels whose code differs when compiled after others (order)")
    for release in choose_releases(options.releases, Workspace(ROOT).cache):
        print(f"{release.version}: installing, then compiling; about a minute", file=sys.stderr, flush=True)
        result = measure_release(release.version, requirements)
        differ = result["differ"]
        words = ", ".join(f"{name} ({' and '.join(orders)})" for name, orders in differ.items())
        line = f"{release.version:8} {len(differ)} of {result['kernels']}: {words or 'none'}"
        print(textwrap.fill(line, WIDTH, subsequent_indent=" " * 9), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
