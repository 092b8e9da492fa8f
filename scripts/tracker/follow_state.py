"""What following main remembers between runs: attempts, main as it was seen, which toolchain."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import write_json

# After the n-th failure that may pass: 1 h, 2 h, 4 h and so on, so that a day without network costs nothing
# and a commit that fails every time little. It is never given up.
_FIRST_DELAY_H = 1
_MAX_DELAY_H = 7 * 24
_MAX_DOUBLINGS = 10


class Attempts(msgspec.Struct):
    """How often a commit failed in a way that may pass, and when last."""

    count: int
    last: datetime.datetime

    def is_due(self, now: datetime.datetime) -> bool:
        """A last time that lies in the future was a wrong clock."""
        hours = min(_MAX_DELAY_H, _FIRST_DELAY_H * 2 ** min(self.count - 1, _MAX_DOUBLINGS))
        return self.last > now or now - self.last >= datetime.timedelta(hours=hours)


class FollowState(msgspec.Struct):
    """``attempts``: {target: {commit: attempts}}. ``tip``, ``refreshed_at``: main as it was seen last.
    ``toolchain``: what stands in for what commits pin, by environment variable; empty: nothing does."""

    schema: int = 1
    attempts: dict[str, dict[str, Attempts]] = msgspec.field(default_factory=dict)
    tip: str = ""
    refreshed_at: datetime.datetime | None = None
    toolchain: dict[str, str] | None = None

    def not_due(self, target: str, now: datetime.datetime) -> set[str]:
        return {c for c, attempts in self.attempts.get(target, {}).items() if not attempts.is_due(now)}

    def count(self, target: str, commit: str, failed: bool, now: datetime.datetime) -> None:
        """Remember a failure that may pass, or forget those of a commit that has its results now."""
        of_target = self.attempts.setdefault(target, {})
        before = of_target.pop(commit, None)
        if failed:
            of_target[commit] = Attempts((before.count if before else 0) + 1, now)


_FILE = "follow.json"
_TOOLCHAIN_VARIABLES = ("LLVM_SYSPATH", "ATOMWATCH_NVIDIA_TOOLS", "TRITON_BUILD_WITH_O1", "DEBUG")


def read_state(results: Path) -> FollowState:
    """An empty one if nothing was followed yet. Raises TrackerError naming the file."""
    path = results / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=FollowState)
    except FileNotFoundError:
        return FollowState()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TrackerError(f"{path}: not readable ({error}); delete it, no result is lost") from error


def write_state(results: Path, state: FollowState) -> None:
    write_json(results / _FILE, state)


def check_toolchain(state: FollowState, environment: Mapping[str, str] = os.environ) -> None:
    """Code of another LLVM or ptxas than the pinned one must not stand in one series with other code.
    Raises TrackerError naming the remedy."""
    now = {name: environment[name] for name in _TOOLCHAIN_VARIABLES if environment.get(name)}
    if state.toolchain is None:
        state.toolchain = now
    if state.toolchain != now:
        raise TrackerError(
            f"the results were made with {_told(state.toolchain)}, and would now be made with {_told(now)}: "
            "set the variables as they were, or move .asv/commits away"
        )


def _told(toolchain: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(toolchain.items())) or "what each commit pins"
