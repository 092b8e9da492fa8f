"""Triton's commits from a clone: bare or not, full or without blobs. Reads it and never fetches."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from scripts.tracker.branches import minor_of
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import CommitRange, LandedCommit
from scripts.tracker.model import Commit
from scripts.tracker.pull_requests import numbers_at_end

_HASH = re.compile(r"[0-9a-f]{7,64}")
_GIT_TIMEOUT_S = 120  # the log of all of Triton with its files takes seconds
_FORMAT = "%x00%H%x00%P%x00%cI%x00%s"
_FIELDS = 4


@dataclass(frozen=True, slots=True)
class CloneHistory:
    """A clone of triton-lang/triton. ``git_dir``: a bare repository, or the .git of a checkout."""

    git_dir: Path

    @property
    def name(self) -> str:
        """What messages call it: they end up in comments, where no path of this machine belongs."""
        return self.git_dir.parent.name if self.git_dir.name == ".git" else self.git_dir.name

    def between(self, before: Commit, after: Commit) -> CommitRange:
        """By ancestry alone: dates play no part. Releases are their tags, so the range of two releases is
        main's line between their forks and what the newer branch has of its own."""
        old, new = self._resolve(before), self._resolve(after)
        self._check_depth(before, old, new)
        commits = self._log(f"{old}..{new}")
        left_behind = self._log(f"{new}..{old}")
        if not commits:
            raise TrackerError(f"{before.label} does not stand before {after.label} in {self.name}")
        notes = []
        if left_behind:
            # A fix that the older branch had too is no news in the newer one.
            had = {number for commit in left_behind for number in numbers_at_end(commit.subject)}
            kept = [c for c in commits if not had.intersection(numbers_at_end(c.subject))]
            fork = self._git("merge-base", old, new).strip()[:10]
            notes.append(
                f"{before.label} left main's line at {fork} and has {len(left_behind)} commits of its own, "
                f"{len(commits) - len(kept)} of them in the range too and left out"
            )
            commits = kept
        exact = bool(commits) and not left_behind and commits[0].parents[:1] == (old,)
        return CommitRange(tuple(commits), (1.0,) * len(commits), exact, tuple(notes))

    def pins(self, commit: LandedCommit, path: str) -> tuple[str, str] | None:
        if not commit.parents:
            return None
        texts = []
        for sha in (commit.parents[0], commit.sha):
            try:
                texts.append(self._git("show", "--no-textconv", f"{sha}:{path}"))
            except TrackerError:
                return None  # no such file then, or a clone without blobs
        return texts[0], texts[1]

    def main_line(self) -> list[LandedCommit]:
        """Everything that landed on main, oldest first."""
        for name in ("refs/remotes/origin/main", "refs/heads/main"):
            if self._verify(name):
                return self._log(name)
        raise TrackerError(f"{self.name}: no branch main; clone https://github.com/triton-lang/triton")

    def _resolve(self, commit: Commit) -> str:
        """The full hash of a measured commit, by its own hash or by a release's tag."""
        if _HASH.fullmatch(commit.commit) and (found := self._verify(f"{commit.commit}^{{commit}}")):
            return found
        if minor_of(commit.label) and (found := self._verify(f"refs/tags/v{commit.label}^{{commit}}")):
            return found
        raise TrackerError(
            f"{self.name}: {commit.label} ({commit.commit[:10]}) is not in this clone: pushed away, or "
            "the clone is old, shallow or has no tags; git fetch --tags --unshallow"
        )

    def _verify(self, name: str) -> str | None:
        try:
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name).split()[-1]
        except TrackerError:
            return None

    def _check_depth(self, before: Commit, old: str, new: str) -> None:
        """A shallow clone would answer, and leave out what lies below its depth."""
        if self._git("rev-parse", "--is-shallow-repository").strip() != "true":
            return
        try:
            self._git("merge-base", old, new)
        except TrackerError:
            raise TrackerError(
                f"{self.name}: a shallow clone, cut off above {before.label}; git fetch --unshallow"
            ) from None

    def _log(self, commits: str) -> list[LandedCommit]:
        """First-parent commits of a range with their files, oldest first."""
        # No path and no subject can hold a word that was drawn just now.
        mark = secrets.token_hex(16)
        text = self._git(
            "log", "--first-parent", "--diff-merges=first-parent", "--no-renames", "--name-only", "-z",
            "--no-show-signature", "--no-color", f"--format=tformat:{mark}{_FORMAT}",
            "--end-of-options", commits, "--",
        )  # fmt: skip
        found = []
        for record in text.split(f"{mark}\0")[1:]:
            sha, parents, date, subject, *files = record.removesuffix("\0").split("\0")
            names = tuple(name.removeprefix("\n") if i == 0 else name for i, name in enumerate(files))
            fields = {"sha": sha, "parents": parents.split(), "date": date, "subject": subject,
                      "files": names}  # fmt: skip
            found.append(_landed(fields, self.name))
        return found[::-1]

    def _git(self, *arguments: str) -> str:
        # Inside a git hook GIT_DIR names another repository. No transport is allowed: a clone without
        # trees or blobs would fetch them one by one, unasked.
        command = ["git", "-c", "protocol.allow=never", "--no-pager", f"--git-dir={self.git_dir}", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(  # noqa: S603 - never a shell; names are checked and end the options
                command, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S, stdin=subprocess.DEVNULL,
                env={**environment, "LC_ALL": "C"},
            )  # fmt: skip
        except FileNotFoundError as error:
            raise TrackerError("git is not installed: install it with your system's packages") from error
        except subprocess.TimeoutExpired as error:
            raise TrackerError(f"{self.name}: git {arguments[0]} took over {_GIT_TIMEOUT_S} s") from error
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
            reason = reason.replace(str(self.git_dir), self.name)[:300]
            raise TrackerError(f"{self.name}: git {arguments[0]} failed: {reason}") from error
        return done.stdout.decode(errors="replace")


def _landed(fields: Mapping[str, object], name: str) -> LandedCommit:
    try:
        return msgspec.convert(fields, LandedCommit)
    except msgspec.MsgspecError as error:
        raise TrackerError(f"{name}: git log prints what is no commit ({error})") from error


def clone_at(path: Path) -> CloneHistory:
    """A clone by its folder, a bare one or a checkout. Raises TrackerError if it is none."""
    git_dir = path / ".git" if (path / ".git").exists() else path
    if not (git_dir / "HEAD").exists() and not git_dir.is_file():
        raise TrackerError(
            f"{path}: no git repository; git clone --bare https://github.com/triton-lang/triton {path}"
        )
    return CloneHistory(git_dir)
