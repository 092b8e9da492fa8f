"""Commands with all that they started: that one is alone, their memory, how they are stopped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.tracker.errors import TrackerError
from scripts.tracker.store import atomic_write, sweep
from scripts.tracker.workspace import Workspace

LOCK_FILE = "track.lock"
GPU_LOCK_FILE = "time.lock"
_GRACE_S = 5  # asv ends within a second of SIGINT, unless a shell made it ignore that
_ORPHAN_GRACE_S = 10  # until the kernel has ended a killed session


@contextmanager
def only_one(workspace: Workspace, name: str = LOCK_FILE) -> Iterator[int]:
    """Two runs in one checkout would install two Tritons into one environment; two that time would disturb
    each other, which has a lock of its own (``name``): a GPU may work while a processor compiles. Yields the
    lock's descriptor: asv, or a session, inherits it, so that one whose driver was killed still keeps others
    out, until the next driver stops it. The lock's file names its holder."""
    workspace.cache.mkdir(parents=True, exist_ok=True)
    path = workspace.cache / name
    with path.open("a+") as lock:
        if not _locked(lock.fileno()) and (holder_is_alive(path) or not _stop_orphans(path, lock.fileno())):
            raise TrackerError(f"{holder(path)} works in {workspace.root}: wait for it or stop it")
        lock.truncate(0)
        command = Path(sys.argv[0]).stem
        json.dump({"pid": os.getpid(), "command": command, "since": time.strftime("%F %T %z")}, lock)
        lock.flush()
        sweep(workspace.results)
        yield lock.fileno()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether somebody works under this lock now. Takes nothing and waits for nobody."""
    try:
        with path.open() as lock:
            return not _locked(lock.fileno())
    except FileNotFoundError:
        return False


def holder(path: Path) -> str:
    """Who took a lock last, in words."""
    try:
        said = json.loads(path.read_text())
        return f"scripts.{said['command']} (process {said['pid']}, since {said['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another run"


def holder_is_alive(path: Path) -> bool:
    """Whether the process that a lock names is there. Unknown counts as alive: who is asked for stops it."""
    try:
        pid = int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return True
    return Path(f"/proc/{pid}").exists()


def _stop_orphans(path: Path, descriptor: int) -> bool:
    """A driver that was killed left an asv behind, which holds the lock and which nobody watches. Stop what
    holds it, with all of its session. True if the lock is ours then."""
    sessions = set()
    for process in _holders(path):
        with contextlib.suppress(ProcessLookupError):
            sessions.add(os.getsid(process))
    for member in (m for session in sessions - {os.getsid(0)} for m in _session_members(session)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    ends_s = time.monotonic() + _ORPHAN_GRACE_S
    while not (ours := _locked(descriptor)) and time.monotonic() < ends_s:
        time.sleep(0.05)
    return ours


def _holders(path: Path) -> set[int]:
    """Other processes that have a file open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it ended while we looked, or is another user's
            if link.readlink() == path.resolve():
                found.add(int(link.parts[2]))
    return found - {os.getpid()}


def stop_session(process: subprocess.Popen[bytes]) -> None:
    """End asv and everything that it started. Its children have process groups of their own."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    for member in _session_members(process.pid):
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            continue


def run_gpu_session(
    root: Path, python: Path, plan: dict[str, Any], options: list[str], lock: int | None = None
) -> int:
    """Run a plan by `benchmarks.session` in the Python that has cuda.core; its exit status. ``lock``: of
    `only_one`, which the session keeps if we are killed; it is then a session of its own, to be stopped by
    the next driver.

    Raises TrackerError without that Python, KeyboardInterrupt after the session has put away its blocks.
    """
    if not python.exists():
        raise TrackerError(
            f"{python}: no such Python; on a machine with a GPU, make .venv-gpu/ready makes it"
        )
    plan_file = Path(plan["out"]) / "plan.json"
    atomic_write(plan_file, json.dumps(plan, indent=1).encode())
    command = [str(python), "-m", "benchmarks.session", str(plan_file), *options]
    process = subprocess.Popen(  # noqa: S603 - our own module and plan
        command, cwd=root, pass_fds=() if lock is None else (lock,), start_new_session=lock is not None
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)  # a second one: Ctrl-C reached it as well
        process.wait()
        raise


def memory_bytes(session: int) -> int:
    """Resident memory of a session's processes together (shared pages count once for each)."""
    pages = 0
    for member in _session_members(session):
        try:
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except OSError:
            continue  # it ended while we looked
    return pages * os.sysconf("SC_PAGE_SIZE")


def _session_members(session: int) -> list[int]:
    """Processes of a session that are still there, by /proc (field 6 of stat, after the name)."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[3]) == session and fields[0] != "Z":
            members.append(int(stat.parent.name))
    return members
