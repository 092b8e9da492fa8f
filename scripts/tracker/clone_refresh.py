"""Our clone of triton-lang/triton: made once, refreshed from then on. It must be a full one, since asv makes
its working copy from it and fetches nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from scripts.tracker.errors import TrackerError

TRITON = "https://github.com/triton-lang/triton"
# git gives up on a server that says nothing for so long, so a stalled fetch ends by itself.
_STALLED = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=300")
_DEADLINE_S = 4 * 3600
_MAIN = "+refs/heads/main:refs/heads/main"


def refresh_clone(clone: Path, source: str, say: Callable[[str], None], progress: bool) -> bool:
    """Make the clone, or bring it up to date. ``source``: a URL or a folder. ``progress``: git's own line,
    for a terminal. False: the server is not there, which is no obstacle once there is a clone; it is said.

    Raises TrackerError if there is no clone and none can be had, or if it is not a full one.
    """
    if not (clone / "HEAD").exists():
        say(f"Cloning {source}, all of its history: once, and minutes on a slow line")
        _make(clone, source, progress)
        return True
    check_full(clone)
    _remove_stale_locks(clone)
    before = _head(clone)
    _git(clone, "remote", "set-url", "origin", source)
    how = (*_how(progress), "--tags", "--force", "origin", _MAIN)
    try:
        _git(clone, *_STALLED, "fetch", *how, shown=progress)
    except TrackerError as error:
        say(f"warning: not refreshed, so commits since the last time are not known: {error}")
        return False
    _say_news(clone, before, say)
    check_full(clone)
    return True


def _make(clone: Path, source: str, progress: bool) -> None:
    part = clone.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    clone.parent.mkdir(parents=True, exist_ok=True)
    how = ("--bare", *_how(progress), "--end-of-options", source, str(part))
    _git(None, *_STALLED, "clone", *how, shown=progress)
    check_full(part)
    part.rename(clone)


def check_full(clone: Path) -> None:
    """Raises TrackerError for a clone in which asv would not find every commit or file."""
    remedy = f"clone {TRITON} whole, without --depth and --filter, or let make follow do it"
    if _git(clone, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise TrackerError(f"{clone}: a shallow clone, without the older commits: {remedy}")
    filters = r"^(remote\..*\.(promisor|partialclonefilter)|extensions\.partialclone)$"
    try:
        partial = _git(clone, "config", "--get-regexp", filters).strip()
    except TrackerError:
        partial = ""  # git's way to say that there is none
    if partial:
        raise TrackerError(f"{clone}: a partial clone, without all files: {remedy}")
    if _head(clone) is None:
        raise TrackerError(f"{clone}: no branch main in it: {remedy}")


def _how(progress: bool) -> list[str]:
    return ["--progress"] if progress else ["--quiet"]


def _say_news(clone: Path, before: str | None, say: Callable[[str], None]) -> None:
    after = _head(clone)
    if before is None or after is None or before == after:
        return
    gone = int(_git(clone, "rev-list", "--count", "--first-parent", f"{after}..{before}"))
    if gone:
        say(f"warning: main was rewritten: {gone} commits are not on it any more; their results are kept")
    new = int(_git(clone, "rev-list", "--count", "--first-parent", f"{before}..{after}"))
    say(f"{new} new commits on main")


def _head(clone: Path) -> str | None:
    try:
        return _git(clone, "rev-parse", "--verify", "--quiet", "refs/heads/main").strip()
    except TrackerError:
        return None


def _remove_stale_locks(clone: Path) -> None:
    """What a killed git left; nobody else writes here, for we hold the lock of the checkout."""
    for lock in [*clone.glob("*.lock"), *(clone / "refs").rglob("*.lock")]:
        lock.unlink(missing_ok=True)


def _git(clone: Path | None, *arguments: str, shown: bool = False) -> str:
    # Inside a git hook these name another repository. Proxies and certificates stay.
    misleading = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
                  "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE")  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in misleading}
    where = [f"--git-dir={clone}"] if clone else []
    what = next((word for word in arguments if not word.startswith("-") and "=" not in word), "git")
    command = ["git", *where, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - never a shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE, check=True, timeout=_DEADLINE_S,
            # Nobody is there to be asked for a password.
            env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        )  # fmt: skip
    except FileNotFoundError as error:
        raise TrackerError("git is not installed: install it with your system's packages") from error
    except subprocess.TimeoutExpired as error:
        raise TrackerError(f"git {what} took over {_DEADLINE_S // 3600} h and was stopped") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        telling = [line for line in said if line.startswith(("fatal:", "error:"))]
        reason = (telling or said or ["see above"])[0]
        raise TrackerError(f"git {what} failed: {reason[:300]}") from error
    return done.stdout.decode(errors="replace")
