"""What the GPU said of itself during a session: clock, temperature and power, block by block."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case


class _Reading(msgspec.Struct):
    sm_clock_mhz: float
    temperature_c: float
    power_w: float
    power_capped: bool


class _Block(msgspec.Struct):
    series: str
    valid: bool
    after: _Reading


class _Case(msgspec.Struct):
    head_dim: int
    causal: bool
    dtype: str
    n_ctx: int


class _Session(msgspec.Struct):
    """The fields of a session's case file that are shown; `session_files` reads the others."""

    case: _Case
    started_at: datetime.datetime
    blocks: list[_Block]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings after each block of one case, in the order of time. ``valid``: False where the GPU throttled
    for heat or by hardware and the block was left out. ``capped``: the power limit held the clock down."""

    file: str
    clock_mhz: tuple[float, ...]
    temperature_c: tuple[float, ...]
    power_w: tuple[float, ...]
    valid: tuple[bool, ...]
    capped: tuple[bool, ...]


# {(start of the session in milliseconds, as asv's results name it, case): readings}
TelemetryFiles = dict[tuple[int, Case], Telemetry]


def read_telemetry(folders: Iterable[Path]) -> tuple[TelemetryFiles, list[TrackerError]]:
    """All session files below these folders, and an error for each one that cannot be read."""
    found: TelemetryFiles = {}
    errors: list[TrackerError] = []
    for folder in sorted({path.parent for root in folders for path in root.glob("*/hd*.json")}):
        sessions: list[tuple[Path, _Session]] = []
        for path in sorted(folder.glob("hd*.json")):
            try:
                sessions.append((path, msgspec.json.decode(path.read_bytes(), type=_Session)))
            except (OSError, msgspec.MsgspecError, RecursionError) as error:
                errors.append(TrackerError(f"{path}: no telemetry in it ({error}); run its plan again"))
        # A session's results carry the start of its first case.
        started_ms = min((round(s.started_at.timestamp() * 1000) for _, s in sessions), default=0)
        for path, session in sessions:
            c = session.case
            key = (started_ms, Case(c.head_dim, c.causal, c.dtype, c.n_ctx))
            found[key] = _telemetry(f"{folder.name}/{path.name}", session.blocks)
    return found, errors


def _telemetry(file: str, blocks: list[_Block]) -> Telemetry:
    return Telemetry(
        file=file,
        clock_mhz=tuple(b.after.sm_clock_mhz for b in blocks),
        temperature_c=tuple(b.after.temperature_c for b in blocks),
        power_w=tuple(b.after.power_w for b in blocks),
        valid=tuple(b.valid for b in blocks),
        capped=tuple(b.after.power_capped for b in blocks),
    )
