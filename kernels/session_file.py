"""The file that a session writes for one case: samples, blocks, telemetry, canaries.

It grows while the session runs and is always whole (written beside and renamed). An unfinished one is
continued by the next start of the same plan; a finished one serves later sessions that would time the same
kernels again (`reuse`).
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernels.evidence import atomic_write, read_record
from kernels.fingerprint import timing_fingerprint
from kernels.plan import Plan, Side, TimedCase

# 2: canaries, copies of a commit, blocks numbered, no_valid_data, reused_from. 1: first version.
SCHEMA = 2


@dataclass
class Subject:
    """One (commit, variant) of a case. Of equal kernels one is timed; the others name it: ``shared_with``.

    ``status``: ok, unsupported, failed, wrong (its gradients), not_compiled. Samples in seconds, one a block.
    """

    commit: str
    label: str
    copy: int
    variant: str
    status: str = "ok"
    message: str | None = None
    identity: list[str] = field(default_factory=list)
    shared_with: list[str] | None = None
    errors: dict[str, float] | None = None
    kernel_s: list[float] = field(default_factory=list)
    backward_s: list[float] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int, str]:
        return self.commit, self.copy, self.variant


@dataclass
class CaseFile:
    """The document of one case. ``canaries``: {name: {"message", "kernel_s"}}; a sample a kernel block.

    ``software``: versions of what had a part in the samples. ``status``: ok, or no_valid_data if the GPU
    throttled in too many blocks. ``reused_from``: the session whose samples these are, None if they were
    taken now.
    """

    path: Path
    plan: Plan
    case: TimedCase
    device: dict[str, Any]
    subjects: list[Subject]
    started_at: str
    software: dict[str, str] = field(default_factory=dict)
    canaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    phases_s: dict[str, float] = field(default_factory=dict)
    process: int = 1
    status: str = "ok"
    note: str | None = None
    reused_from: str | None = None
    complete: bool = False

    def valid(self, series: str) -> int:
        """How many blocks of a series count."""
        return sum(block["series"] == series and block["valid"] for block in self.blocks)

    def taken(self, series: str) -> int:
        return sum(block["series"] == series for block in self.blocks)

    def samples(self, subject: Subject, series: str) -> list[float]:
        """Those of valid blocks."""
        taken = subject.kernel_s if series == "kernel" else subject.backward_s
        valid = [block["valid"] for block in self.blocks if block["series"] == series]
        return [s for s, is_valid in zip(taken, valid, strict=True) if is_valid]

    def base_of(self, subject: Subject) -> Subject:
        """Whose timing a subject has: its own, or that of the equal kernel that it shares."""
        if subject.shared_with is None:
            return subject
        key = (subject.shared_with[0], subject.copy, subject.shared_with[1])
        return next(other for other in self.subjects if other.key == key)

    def write(self) -> None:
        self._drop_half_a_block()
        document = {
            "schema": SCHEMA,
            "method": timing_fingerprint(),
            "complete": self.complete,
            "status": self.status,
            "case": asdict(self.case),
            "target": self.plan.target,
            "plan": self.plan.key(),
            "seed": self.plan.seed,
            "device": self.device,
            "software": self.software,
            "started_at": self.started_at,
            "process": self.process,
            "reused_from": self.reused_from,
            "phases_s": {name: round(seconds, 4) for name, seconds in self.phases_s.items()},
            "note": self.note,
            "subjects": [asdict(subject) for subject in self.subjects],
            "canaries": self.canaries,
            "blocks": self.blocks,
        }
        atomic_write(self.path, json.dumps(document, allow_nan=True).encode())

    def _drop_half_a_block(self) -> None:
        """An interrupt may come between the samples of a block and the block."""
        kernel, backward = self.taken("kernel"), self.taken("backward")
        for subject in self.subjects:
            del subject.kernel_s[kernel:], subject.backward_s[backward:]
        for canary in self.canaries.values():
            del canary["kernel_s"][kernel:]

    def settle_canaries(self, now: dict[str, str | None]) -> set[str]:
        """Which canaries to time: each is in every kernel block or in none. Call it after `resume`.

        ``now``: why a canary cannot be timed now, None if it can. One that an earlier start timed and this
        one cannot (it hung, torch is gone), or the other way round, is left out with its samples.
        """
        for name, why_not in now.items():
            known = self.canaries.setdefault(name, {"message": why_not, "kernel_s": []})
            if why_not is None and len(known["kernel_s"]) != self.taken("kernel"):
                why_not = known["message"] or "not timed in the first blocks"
            known["message"] = why_not
            if why_not is not None:
                known["kernel_s"] = []
        return {name for name in now if self.canaries[name]["message"] is None}

    def resume(self) -> None:
        """Take over the blocks of an earlier, unfinished start of the same plan on the same GPU.

        Nothing is taken over if a kernel that is to be timed now was not timed then: a block holds all.
        """
        earlier = read_session_file(self.path)
        if earlier is None or not _is_of(earlier, self.plan, self.device) or earlier["complete"]:
            return
        then = {(s["commit"], s["copy"], s["variant"]): s for s in earlier["subjects"]}
        timed = [s for s in self.subjects if s.status == "ok" and s.shared_with is None]
        blocks = {
            series: sum(b["series"] == series for b in earlier["blocks"]) for series in ("kernel", "backward")
        }
        for subject in timed:
            known = then.get(subject.key, {})
            if known.get("identity") != subject.identity or len(known["kernel_s"]) != blocks["kernel"]:
                return
            if len(known["backward_s"]) != blocks["backward"]:
                return
        for subject in timed:
            subject.kernel_s = then[subject.key]["kernel_s"]
            subject.backward_s = then[subject.key]["backward_s"]
        self.blocks, self.started_at = earlier["blocks"], earlier["started_at"]
        self.canaries, self.process = earlier["canaries"], earlier["process"] + 1
        self.phases_s = earlier["phases_s"]


class Stopwatch:
    """Adds the seconds of a phase to a CaseFile's ``phases_s``."""

    def __init__(self, phases_s: dict[str, float]) -> None:
        self._phases_s = phases_s
        self._since_s = time.monotonic()

    def lap(self, name: str) -> None:
        """All time since the last lap belongs to ``name``."""
        now_s = time.monotonic()
        self._phases_s[name] = self._phases_s.get(name, 0.0) + now_s - self._since_s
        self._since_s = now_s


_WANTED = (
    "complete", "status", "plan", "target", "device", "method", "subjects", "blocks", "canaries", "case",
    "started_at", "process", "phases_s", "reused_from",
)  # fmt: skip


def read_session_file(path: Path) -> dict[str, Any] | None:
    """A whole document of this schema; None if there is none or it is something else."""
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA or any(name not in document for name in _WANTED):
            return None
        series = [block["series"] for block in document["blocks"] if isinstance(block["valid"], bool)]
        subjects = [Subject(**entry) for entry in document["subjects"]]
        is_whole = len(series) == len(document["blocks"]) and all(
            len(s.kernel_s) in (0, series.count("kernel"))
            and len(s.backward_s) in (0, series.count("backward"))
            for s in subjects
        )
        is_whole &= all(
            len(canary["kernel_s"]) in (0, series.count("kernel")) for canary in document["canaries"].values()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(document) if is_whole else None


def is_complete(path: Path, plan: Plan, case: TimedCase, device: dict[str, Any]) -> bool:
    """Whether a case of this plan needs no more work: every kernel that the store holds now was tried."""
    document = read_session_file(path)
    if document is None or not document["complete"] or not _is_of(document, plan, device):
        return False
    try:
        subjects = subjects_of(plan, case, {})
    except ValueError:
        return False  # the worker says which record is damaged
    then = {(s["commit"], s["copy"], s["variant"]): s for s in document["subjects"]}
    return all(_was_tried(subject, then.get(subject.key)) for subject in subjects)


def _was_tried(now: Subject, then: dict[str, Any] | None) -> bool:
    """A kernel that took its process down has no identity in the file, as one that was not compiled."""
    if then is None:
        return False
    took_down_its_process = then["status"] == "failed" and not then["identity"]
    return then["identity"] == now.identity or (now.status == "ok" and took_down_its_process)


def _is_of(document: dict[str, Any], plan: Plan, device: dict[str, Any]) -> bool:
    same_method = document["method"] == timing_fingerprint()
    return same_method and document["plan"] == plan.key() and document["device"] == device


def subjects_of(plan: Plan, case: TimedCase, excluded: dict[str, str]) -> list[Subject]:
    """Every (commit, variant) of a case as the evidence store has it. Raises ValueError for a damaged one."""
    return [_subject(plan, case, side, v, excluded) for side in plan.sides() for v in plan.variants]


def _subject(plan: Plan, case: TimedCase, side: Side, variant: str, excluded: dict[str, str]) -> Subject:
    subject = Subject(side.commit, side.label, side.copy, variant)
    record = record_of(plan, case, side.commit, variant)
    key = exclusion_key(case, side.commit, variant)
    if record is None:
        subject.status, subject.message = "not_compiled", "no record in the evidence store"
    elif record["status"] != "ok":
        subject.status, subject.message = record["status"], record["message"]
    elif key in excluded:
        subject.status, subject.message = "failed", excluded[key]
    else:
        subject.identity = [kernel["identity"] for kernel in record["kernels"]]
    return subject


def record_of(plan: Plan, case: TimedCase, commit: str, variant: str) -> dict[str, Any] | None:
    """A record of the evidence store, None if there is none. Raises ValueError if it is damaged."""
    folder = Path(plan.store) / "records" / plan.target.replace(":", "-") / commit / case.codegen_slug
    try:
        return read_record(folder / f"{variant}.json")
    except FileNotFoundError:
        return None


def exclusion_key(case: TimedCase, commit: str, variant: str) -> str:
    """Names a kernel that took its process down, to the processes that follow."""
    return f"{case.slug} {commit} {variant}"
