"""Commands with all that they started: that one is alone, their memory, how they are stopped."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.tracker.errors import TrackerError
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import Workspace

_GRACE_S = 5  # asv ends within a second of SIGINT, unless a shell made it ignore that


@contextmanager
def only_one(workspace: Workspace) -> Iterator[int]:
    """Two runs in one checkout would install two Tritons into one environment. Yields the lock's descriptor:
    asv inherits it, so that an asv whose driver was killed still keeps others out."""
    workspace.cache.mkdir(parents=True, exist_ok=True)
    with (workspace.cache / "track.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrackerError(
                f"another make track runs in {workspace.root}: wait for it or stop it"
            ) from None
        yield lock.fileno()


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


def run_gpu_session(root: Path, python: Path, plan: dict[str, Any], options: list[str]) -> int:
    """Run a plan by `benchmarks.session` in the Python that has cuda.core; its exit status.

    Raises TrackerError without that Python, KeyboardInterrupt after the session has put away its blocks.
    """
    if not python.exists():
        raise TrackerError(
            f"{python}: no such Python; on a machine with a GPU, make .venv-gpu/ready makes it"
        )
    plan_file = Path(plan["out"]) / "plan.json"
    atomic_write(plan_file, json.dumps(plan, indent=1).encode())
    command = [str(python), "-m", "benchmarks.session", str(plan_file), *options]
    process = subprocess.Popen(command, cwd=root)  # noqa: S603 - our own module and plan
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
