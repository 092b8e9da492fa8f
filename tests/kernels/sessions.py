"""Small plans, stores and session files, for tests of a session without a GPU."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.evidence import EvidenceWriter
from kernels.plan import Plan, TimedCase
from kernels.session_file import CaseFile, is_complete, subjects_of

OLD, NEW = "a" * 40, "b" * 40
CASE = TimedCase(64, True, "fp16", 2048)
NAME = f"{CASE.slug}.json"
DEVICE = {"gpu": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "power_limit_w": 700.0}
VARIANTS = ["atomic_add", "inline_asm", "none"]


def plan_document(folder: Path, **changes: Any) -> dict[str, Any]:
    document = {
        "store": str(folder / "store"),
        "out": str(folder / "sessions" / "now"),
        "target": "cuda:90",
        "commits": [[NEW, "new"]],
        "variants": VARIANTS,
        "cases": [asdict(CASE)],
        "seed": 1,
        "min_blocks": 4,
        "max_blocks": 6,
        "backward_blocks": 2,
        "canaries": ["device_copy"],
    }
    return {**document, **changes}


def plan(folder: Path, **changes: Any) -> Plan:
    return Plan.from_dict(plan_document(folder, **changes))


def put_record(
    folder: Path, commit: str, variant: str, *identities: str, status: str = "ok", message: str | None = None
) -> Path:
    """A variant's record in the store; its kernels' identities are its variant and commit unless given."""
    writer = EvidenceWriter(folder / "store")
    path = writer.record_path("cuda:90", commit, CASE.codegen_slug, variant)
    kernels = [{"identity": identity} for identity in identities or (f"{variant} of {commit[:1]}",)]
    writer.put_record(
        path, {"status": status, "message": message, "kernels": kernels if status == "ok" else []}
    )
    return path


def fill_store(folder: Path, *commits: str) -> None:
    for commit in commits or (OLD, NEW):
        for variant in VARIANTS:
            put_record(folder, commit, variant)


def block(series: str = "kernel", valid: bool = True) -> dict[str, Any]:
    return {"series": series, "valid": valid, "process": 1, "before": {}, "after": {}}


def case_file(of: Plan, kernel: int = 0, backward: int = 0, **changes: Any) -> CaseFile:
    """A case with samples: the first kernel that has an identity gives them for all equal ones, as a session
    does. A sample tells its kernel and block."""
    subjects = subjects_of(of, CASE, {})
    first: dict[tuple[Any, ...], Any] = {}
    for number, subject in enumerate(subjects, start=1):
        if subject.status != "ok":
            continue
        found = first.setdefault((*subject.identity, subject.copy), subject)
        if found is not subject:
            subject.shared_with = [found.commit, found.variant]
            continue
        subject.errors = {"dq": 1e-4, "dk": 1e-4, "dv": 1e-4}
        subject.kernel_s = [number + index / 100 for index in range(kernel)]
        subject.backward_s = [2 * number + index / 100 for index in range(backward)]
    file = CaseFile(
        Path(of.out) / f"{CASE.slug}.json", of, CASE, DEVICE, subjects, "2026-12-01T13:00:00+00:00"
    )
    file.canaries = {n: {"message": None, "kernel_s": [0.5] * kernel} for n in of.canaries}
    file.blocks = [block()] * kernel + [block("backward")] * backward
    for name, value in changes.items():
        setattr(file, name, value)
    return file


def written(file: CaseFile) -> dict[str, Any]:
    return dict(json.loads(file.path.read_text()))


def done(of: Plan, **device: Any) -> bool:
    return is_complete(Path(of.out) / NAME, of, CASE, {**DEVICE, **device})
