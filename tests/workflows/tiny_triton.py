"""In the place of triton-lang/triton: a repository of a few commits, two of them tagged as real releases, so
that the builder takes their wheels from the package index and real kernels are compiled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# The pair in which ptxas began to drop the L1 after each write of dQ.
RELEASES = ("3.3.1", "3.4.0")
SUBJECTS = ("[BACKEND] Lower atomics (#6148)", "[BACKEND] Lower atomics otherwise (#6149)")


# Equal hashes in every copy: what was compiled of one is handed in by another.
_DATES = {"GIT_AUTHOR_DATE": "2025-07-01T00:00:00Z", "GIT_COMMITTER_DATE": "2025-07-01T00:00:00Z"}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example", *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, **_DATES}
    ).stdout


def make(folder: Path) -> list[str]:
    """Commits that apply, oldest first; between them one that touches a document only."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    found = []
    for release, subject in zip(RELEASES, SUBJECTS, strict=True):
        _commit(
            folder, "third_party/nvidia/lib/TritonNVIDIAGPUToLLVM/LoadStoreOpToLLVM.cpp", release, subject
        )
        git(folder, "tag", f"v{release}")
        found.append(git(folder, "rev-parse", "HEAD").strip())
        _commit(folder, "docs/index.rst", release, "[DOCS] Say it better (#1)")
    return found


def _commit(folder: Path, name: str, content: str, subject: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"// {content}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", subject)
