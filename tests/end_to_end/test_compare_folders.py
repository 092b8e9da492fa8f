"""compare on a real Triton: a folder with a built one against itself, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from end_to_end_project import ROOT, copy_project

pytestmark = pytest.mark.end_to_end


def test_the_same_build_twice_is_the_same_machine_code(tmp_path: Path) -> None:
    found = list(ROOT.glob(".venv-kernels/lib/python3.*/site-packages/triton/_C/libtriton.so"))
    if not found:
        pytest.skip("no Triton here: make .venv-kernels/ready installs one")
    folder = found[0].parents[2]
    command = [sys.executable, "-m", "scripts.compare", "--base", str(folder), "--head", str(folder),
               "--head-dim", "64"]  # fmt: skip
    project = copy_project(tmp_path / "project")
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "**No change that matters**" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("| `")]
    assert len(rows) == 9
    assert all("| same | same | same | same | identical | -" in row for row in rows)
    assert not (project / ".cache" / "compare" / "environment").exists()
