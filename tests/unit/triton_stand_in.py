"""A project of Triton's shape that builds in a second: the same folders, a build that does what a test says.

Its build backend lies in its own tree and needs nothing installed, so pip builds it without a network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "c" * 40
TAG = f"cp3{sys.version_info.minor}"
PLATFORM = "linux_x86_64"

# `plan.py` is run first, in the place of setup.py's CMake.
BACKEND = f"""
import os, pathlib, runpy, zipfile
NAME = "triton-3.0.0-{TAG}-{TAG}-{PLATFORM}.whl"
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    made = runpy.run_path("plan.py").get("files", {{"triton/_C/libtriton.so": "machine code"}})
    made = {{**made, "triton-3.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\n"
            "Tag: {TAG}-{TAG}-{PLATFORM}\\n",
            "triton-3.0.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: triton\\nVersion: 3.0.0\\n",
            "triton-3.0.0.dist-info/RECORD": ""}}
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / NAME, "w") as wheel:
        for name, text in made.items():
            wheel.writestr(name, text)
    return NAME
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
NAME = f"triton-3.0.0-{TAG}-{TAG}-{PLATFORM}.whl"


def write_project(folder: Path, plan: str = "", at: str = "python") -> Path:
    """A checkout whose build runs ``plan``. ``at``: where setup.py lies, "python" or "." as of 2025."""
    project = folder / at
    project.mkdir(parents=True, exist_ok=True)
    (project / "setup.py").write_text("# only that it is there\n")
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "backend.py").write_text(BACKEND)
    (project / "plan.py").write_text(plan)
    (folder / "cmake").mkdir(exist_ok=True)
    (folder / "cmake" / "llvm-hash.txt").write_text("4713bd4ccc0c0d568f92916e7851d993291742c0\n")
    (folder / "cmake" / "nvidia-toolchain-version.txt").write_text("12.4.99\n")
    return folder


def write_wheel(path: Path, content: str = "machine code") -> Path:
    """A wheel that is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("triton/_C/libtriton.so", content)
    return path


class SourceBuild:
    """Everything that asv gives build_triton for one commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "project"
        self.out = root / "cache" / "wheel"
        self.house = root / "built"
        self.log = root / "build.log"

    def run(self, commit: str = COMMIT, **environment: str) -> subprocess.CompletedProcess[str]:
        self.out.parent.mkdir(exist_ok=True)
        (self.root / "report.json").unlink(missing_ok=True)
        mine = ("ATOMWATCH_", "TRITON_", "LLVM_", "PYBIND11_", "CCACHE_", "MAX_JOBS", "PIP_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        ours = {
            "ATOMWATCH_BUILD_REPORT": str(self.root / "report.json"),
            "ATOMWATCH_BUILT_WHEELS": str(self.house),
            "ATOMWATCH_BUILD_CACHE": str(self.root / "compiler-cache"),
            "ATOMWATCH_BUILD_LOG": str(self.log),
        }
        return subprocess.run(
            [sys.executable, "-m", "scripts.build_triton", "--commit", commit, "--src", self.source,
             "--out", self.out],
            env={**own, **ours, **environment}, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def failure(self, **environment: str) -> dict[str, object]:
        """The report of a build that must fail, leaving no wheel and no traceback."""
        done = self.run(**environment)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        assert list(self.out.glob("*")) == []
        report: dict[str, object] = json.loads((self.root / "report.json").read_text())
        assert str(report["reason"]) in done.stderr
        return report

    def facts(self, commit: str = COMMIT) -> dict[str, object]:
        return dict(json.loads((self.house / commit / "built.json").read_text()))
