"""The files of GPU sessions (`kernels.session_file`), read strictly: they come from other machines."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from scripts.tracker.errors import TrackerError

SCHEMA = 2


class Subject(msgspec.Struct):
    """What a session says of one (commit, variant); see `kernels.session_file.Subject`."""

    commit: str
    label: str
    copy: int
    variant: str
    status: str
    message: str | None
    identity: list[str]
    shared_with: list[str] | None
    kernel_s: list[float]
    backward_s: list[float]


class Reading(msgspec.Struct):
    """What the GPU said; the rest of it stays in the file."""

    power_capped: bool


class Block(msgspec.Struct):
    """One round over all kernels. Not valid: the GPU throttled for heat or by hardware."""

    series: Literal["kernel", "backward"]
    valid: bool
    before: Reading
    after: Reading

    @property
    def is_capped(self) -> bool:
        """Whether the power limit held the clock down: normal under load, so only recorded."""
        return self.before.power_capped or self.after.power_capped


class Canary(msgspec.Struct):
    """Work that no Triton commit can change. ``message``: why it was not timed."""

    message: str | None
    kernel_s: list[float]


class SessionFile(msgspec.Struct):
    """One case of a session; see `kernels.session_file`."""

    schema: int
    complete: bool
    status: Literal["ok", "no_valid_data"]
    note: str | None
    target: str
    case: dict[str, Any]
    device: dict[str, Any]
    started_at: datetime.datetime
    subjects: list[Subject]
    canaries: dict[str, Canary]
    blocks: list[Block]

    def samples(self, subject: Subject, series: str) -> list[float]:
        """Valid samples in block order; of the kernel whose timing it shares, if it shares one."""
        subject = self.base_of(subject)
        return self.valid(subject.kernel_s if series == "kernel" else subject.backward_s, series)

    def valid(self, taken: list[float], series: str) -> list[float]:
        """Those of blocks in which the GPU did not throttle."""
        blocks = [block.valid for block in self.blocks if block.series == series]
        return [s for s, valid in zip(taken, blocks, strict=True) if valid]

    def base_of(self, subject: Subject) -> Subject:
        """Whose timing it is: its own, or that of an equal kernel. Raises ValueError if that is not there."""
        if subject.shared_with is None:
            return subject
        for other in self.subjects:
            if [other.commit, other.variant] == subject.shared_with and other.copy == subject.copy:
                return other
        raise ValueError(f"{subject.variant} shares a timing that is not there")

    def has_series(self, series: str) -> bool:
        """Whether the plan asked for it: a session may leave out the whole backward."""
        return any(block.series == series for block in self.blocks)


def read_sessions(folder: Path) -> list[SessionFile]:
    """All case files of a session. Raises TrackerError for one that is damaged or of another device."""
    documents = [_read_session(path) for path in sorted(folder.glob("hd*.json"))]
    if not documents:
        raise TrackerError(f"{folder}: holds no session file (hd*.json)")
    check_one_device(documents, str(folder))
    return documents


def check_one_device(documents: list[SessionFile], where: str) -> None:
    """Raises TrackerError if GPU, driver or limits differ. Cards of one kind count as one device."""
    epochs = {json.dumps({**d.device, "uuid": None}, sort_keys=True) for d in documents}
    if len(epochs) > 1:
        raise TrackerError(f"{where}: sessions of different devices or drivers; take them apart")


def _read_session(path: Path) -> SessionFile:
    try:
        content = json.loads(path.read_text())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}, this program reads {SCHEMA}")
        document = msgspec.convert(content, SessionFile)
        series = [block.series for block in document.blocks]
        for subject in document.subjects:
            expected = (len(subject.kernel_s), len(subject.backward_s))
            is_timed = subject.status == "ok" and subject.shared_with is None
            if is_timed and expected != (series.count("kernel"), series.count("backward")):
                raise ValueError(f"{subject.variant} has samples of other blocks")
            if subject.shared_with is not None:
                document.base_of(subject)
        for name, canary in document.canaries.items():
            if canary.kernel_s and len(canary.kernel_s) != series.count("kernel"):
                raise ValueError(f"{name} has samples of other blocks")
    except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise TrackerError(f"{path}: not a session file ({error}); run its plan again") from error
    times = [t for s in document.subjects for t in (*s.kernel_s, *s.backward_s)]
    times += [t for canary in document.canaries.values() for t in canary.kernel_s]
    if not all(0 < t < math.inf for t in times):
        raise TrackerError(f"{path}: holds a time that is not above zero; run its plan again")
    if not document.complete:
        why = document.note or "interrupted"
        raise TrackerError(f"{path}: the session did not finish this case ({why}); run its plan again")
    return document
