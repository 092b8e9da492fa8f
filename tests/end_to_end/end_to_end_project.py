"""A copy of what git would clone, so that nothing measured here is found, or lost."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def copy_project(copy: Path) -> Path:
    copy.mkdir()
    for name in ("asv.conf.json", "benchmarks", "kernels", "scripts", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy
