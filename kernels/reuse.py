"""Samples of an earlier session, used again where the GPU would be asked to do exactly the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernels.fingerprint import timing_fingerprint
from kernels.plan import Plan, TimedCase
from kernels.session_file import CaseFile, Subject, read_session_file, subjects_of


def reuse(plan: Plan, case: TimedCase, device: dict[str, Any]) -> bool:
    """Write the case's file from earlier samples, if one session of this method on this very GPU timed every
    kernel that the case needs (or found its gradients wrong). Then no GPU second is spent."""
    if plan.fresh or plan.archive is None or any(side.copy > 1 for side in plan.sides()):
        return False
    try:
        subjects = subjects_of(plan, case, {})
    except ValueError:
        return False  # the worker says which record is damaged
    needed = {tuple(subject.identity) for subject in subjects if subject.status == "ok"}
    if not needed:
        return False
    for path, document in _archived(Path(plan.archive), case):
        if _serves(document, plan, device) and needed <= set(_judged(document)):
            _take_over(plan, case, subjects, document, path.parent.name)
            return True
    return False


def _serves(document: dict[str, Any], plan: Plan, device: dict[str, Any]) -> bool:
    """Whether its blocks are what the plan asks for."""
    valid = {
        series: sum(b["series"] == series and b["valid"] for b in document["blocks"])
        for series in ("kernel", "backward")
    }
    return (
        document["method"] == timing_fingerprint()
        and document["device"] == device
        and document["target"] == plan.target
        and bool(document["complete"])
        and document["status"] == "ok"
        and valid["kernel"] >= plan.min_blocks
        and valid["backward"] >= min(plan.backward_blocks, plan.min_blocks)
        and set(plan.canaries) <= set(document["canaries"])
    )


def _judged(document: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """What was timed by itself or has wrong gradients, by identity. What failed may have failed by chance."""
    return {
        tuple(entry["identity"]): entry
        for entry in document["subjects"]
        if entry["status"] in ("ok", "wrong") and entry["shared_with"] is None and entry["copy"] == 1
    }


def _archived(archive: Path, case: TimedCase) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Earlier files of a case, the newest first."""
    found = sorted(archive.glob(f"*/{case.slug}.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in found:
        document = read_session_file(path)
        if document is not None and document["reused_from"] is None:
            yield path, document


def _take_over(
    plan: Plan, case: TimedCase, subjects: list[Subject], document: dict[str, Any], session: str
) -> None:
    then = _judged(document)
    first: dict[tuple[str, ...], Subject] = {}
    for subject in subjects:
        if subject.status != "ok":
            continue
        identity = tuple(subject.identity)
        known = then[identity]
        subject.status, subject.message, subject.errors = known["status"], known["message"], known["errors"]
        if identity in first:
            subject.shared_with = [first[identity].commit, first[identity].variant]
            continue
        first[identity] = subject
        subject.kernel_s, subject.backward_s = known["kernel_s"], known["backward_s"]
    file = CaseFile(
        Path(plan.out) / f"{case.slug}.json", plan, case, document["device"], subjects, document["started_at"]
    )
    file.canaries, file.blocks, file.complete = document["canaries"], document["blocks"], True
    file.process, file.reused_from = document["process"], session
    file.software = document.get("software", {})
    file.write()
