"""Small histories of Triton: as values, as a file, and as a real git repository."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

from scripts.tracker.history import LandedCommit, history_file_bytes
from scripts.tracker.model import Commit

DAY_ONE = datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.UTC)
LOWERING = ("third_party/nvidia/lib/TritonNVIDIAGPUToLLVM/LoadStoreOpToLLVM.cpp",)


def sha(n: int) -> str:
    return f"{n:08x}" + "beef" * 8


def landed(
    n: int,
    subject: str = "",
    files: tuple[str, ...] = LOWERING,
    parents: tuple[str, ...] | None = None,
    date: datetime.datetime | None = None,
) -> LandedCommit:
    """The n-th commit of main, a day after the one before it."""
    return LandedCommit(
        sha=sha(n),
        parents=((sha(n - 1),) if n else ()) if parents is None else parents,
        date=date or DAY_ONE + datetime.timedelta(days=n),
        subject=subject or f"Change {n} (#{4000 + n})",
        files=files,
    )


def line(count: int) -> list[LandedCommit]:
    return [landed(n) for n in range(count)]


def commit(n: int) -> Commit:
    """A measured commit of main."""
    return Commit(sha(n), sha(n)[:10])


def release(label: str) -> Commit:
    """A measured release: its hash is of the history of releases, not of Triton."""
    return Commit("ab" * 20, label)


def write_history(path: Path, commits: list[LandedCommit]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(history_file_bytes(commits))
    return path


class Repository:
    """A git repository in the test's folder, with commits of set dates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, date: str = "2024-06-01T12:00:00+00:00") -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for who in ("GIT_AUTHOR", "GIT_COMMITTER"):
            environment |= {f"{who}_NAME": "someone", f"{who}_EMAIL": "x@example", f"{who}_DATE": date}
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, subject: str, path: str = "a.cpp", date: str = "2024-06-01T12:00:00+00:00") -> str:
        """Change a file and commit it; returns the hash."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(subject)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", subject, date=date)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")
