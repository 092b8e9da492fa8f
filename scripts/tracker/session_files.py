"""The files of GPU sessions (`kernels.session_file`), read strictly: they come from other machines."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.store import read_regular

SCHEMA = 2
BATCH, HEADS = 4, 8  # issue 4717's, and so every timed shape's
_LONGEST_S = 3600.0  # of one launch: more is another unit
Size = Annotated[int, msgspec.Meta(ge=1, le=2**24)]


class Subject(msgspec.Struct):
    """What a session says of one (commit, variant); see `kernels.session_file.Subject`."""

    commit: str
    label: str
    copy: int
    variant: str
    status: Literal["ok", "unsupported", "failed", "wrong", "not_compiled"]
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


class TimedCase(msgspec.Struct, frozen=True):
    """See `kernels.plan.TimedCase`."""

    head_dim: Size
    causal: bool
    dtype: Literal["fp16", "bf16"]
    n_ctx: Size
    batch: Size = BATCH
    heads: Size = HEADS


class Device(msgspec.Struct, frozen=True):
    """What makes an epoch. The rest of what NVML says stays in the file. Becomes a folder's name."""

    gpu: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()-]{0,80}$")]
    driver: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,40}$")]
    power_limit_w: float
    max_sm_clock_mhz: int | None = None
    persistence_mode: bool | None = None
    uuid: str | None = None

    @property
    def machine(self) -> str:
        """asv's name for an epoch, like "h200-580.159.04": the GPU's model and the driver."""
        words = self.gpu.lower().replace("nvidia", "").split() or ["gpu"]
        name = "-".join([*words, self.driver])
        return "".join(c if c.isalnum() or c in ".-" else "-" for c in name)

    def session(self, started_at: datetime.datetime) -> str:
        """As `timed_results` names one: what follows the last blank is the start in milliseconds."""
        return f"{self.machine} {int(started_at.timestamp() * 1000)}"


class SessionFile(msgspec.Struct):
    """One case of a session; see `kernels.session_file`."""

    schema: int
    complete: bool
    status: Literal["ok", "no_valid_data"]
    note: str | None
    target: str
    case: TimedCase
    device: Device
    started_at: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    subjects: list[Subject]
    canaries: dict[str, Canary]
    blocks: list[Block]
    reused_from: str | None = None  # the session whose samples these are; None: taken now

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
    if len({document.case for document in documents}) < len(documents):
        raise TrackerError(f"{folder}: holds a case twice; move one of its files away")
    return documents


def check_one_device(documents: list[SessionFile], where: str) -> None:
    """Raises TrackerError if GPU, driver or limits differ. Cards of one kind count as one device."""
    if len({msgspec.structs.replace(document.device, uuid=None) for document in documents}) > 1:
        raise TrackerError(f"{where}: sessions of different devices or drivers; take them apart")


def _read_session(path: Path) -> SessionFile:
    document = parse_session(path)
    if not document.complete:
        why = document.note or "interrupted"
        raise TrackerError(f"{path}: the session did not finish this case ({why}); run its plan again")
    return document


def parse_session(path: Path) -> SessionFile:
    """One case, maybe of a session that was interrupted in it. Raises TrackerError if it is damaged."""
    try:
        content = json.loads(read_regular(path))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}, this program reads {SCHEMA}")
        document = msgspec.convert(content, SessionFile)
        series = [block.series for block in document.blocks]
        for subject in document.subjects:
            expected = (len(subject.kernel_s), len(subject.backward_s))
            is_timed = subject.status == "ok" and subject.shared_with is None
            if is_timed and expected != (series.count("kernel"), series.count("backward")):
                raise ValueError(f"{subject.variant} has samples of other blocks")
            base = document.base_of(subject)
            is_equal = base.shared_with is None and base.status == "ok" and base.identity == subject.identity
            if subject.status == "ok" and not is_equal:
                raise ValueError(f"{subject.variant} shares the timing of another kernel")
        for name, canary in document.canaries.items():
            if canary.kernel_s and len(canary.kernel_s) != series.count("kernel"):
                raise ValueError(f"{name} has samples of other blocks")
    except (OSError, ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise TrackerError(f"{path}: not a session file ({error}); run its plan again") from error
    times = [t for s in document.subjects for t in (*s.kernel_s, *s.backward_s)]
    times += [t for canary in document.canaries.values() for t in canary.kernel_s]
    if not all(0 < t < _LONGEST_S for t in times):
        raise TrackerError(f"{path}: holds a time of no launch (zero, or over an hour); run its plan again")
    return document
