"""A suspicion in one file, to be settled on a machine with a GPU: the question and the kernels that it needs.

The file holds records and cubins of the evidence store, so the other machine needs a checkout and a Python
with cuda.core, and neither Triton nor the store. What it names becomes paths, so it is checked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from scripts.tracker.confirmation import Question
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case, Commit, Finding, Role, VariantFacts
from scripts.tracker.policy import ConfirmPolicy
from scripts.tracker.results import HASH, LABEL, WORD
from scripts.tracker.session_files import BATCH, HEADS
from scripts.tracker.store import EvidenceStore, atomic_write, read_regular

SCHEMA = 1
SUPPORT = "support"  # forward, preprocess and conversion; see `kernels.record`
_RECORD = re.compile(r"records(/[A-Za-z0-9][A-Za-z0-9._-]*){3}/[a-z0-9_]+\.json")
_OBJECT = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{64}\.zst")
_FINDING = re.compile(r"[0-9a-f]{12}")
_DTYPES = ("fp16", "bf16")


class Request(msgspec.Struct, frozen=True):
    """``case``: as `kernels.plan.TimedCase`. ``files``: path in the evidence store to content, base64."""

    schema: int
    finding: str
    candidate: str
    reference: str
    of: str
    before: Commit
    after: Commit
    target: str
    case: dict[str, Any]
    variants: list[str]
    files: dict[str, str]

    @property
    def question(self) -> Question:
        return Question(self.finding, self.candidate, self.reference, self.before, self.after, self.of)


def make_request(
    finding: Finding, store: EvidenceStore, variants: dict[str, VariantFacts], policy: ConfirmPolicy
) -> Request:
    """Raises TrackerError if the store lacks a side's kernels."""
    case = finding.case
    controls = sorted(v for v, facts in variants.items() if facts.role is Role.CONTROL)
    names = [finding.candidate, finding.reference, *controls]
    files: dict[str, str] = {}
    for commit in (finding.before, finding.after):
        for name in [*names, SUPPORT]:
            files |= _files_of(store, finding.target, commit, case, name, name in names[:2])
    question = Question.about(finding)
    return Request(
        schema=SCHEMA,
        finding=finding.id,
        candidate=finding.candidate,
        reference=finding.reference,
        of=question.of,
        before=finding.before,
        after=finding.after,
        target=finding.target,
        case={
            "head_dim": case.head_dim,
            "causal": case.causal,
            "dtype": case.dtype,
            "n_ctx": case.n_ctx or policy.n_ctx,
            "batch": case.batch or BATCH,
            "heads": case.heads or HEADS,
        },
        variants=names,
        files=files,
    )


def _files_of(
    store: EvidenceStore, target: str, commit: Commit, case: Case, name: str, needed: bool
) -> dict[str, str]:
    evidence = store.load(target, commit.commit, case, name)
    if evidence is None or evidence.status != "ok":
        if needed or name == SUPPORT:
            raise TrackerError(
                f"{name} at {commit.label} is not in {store.root} ({case}): "
                f'make track RELEASES="{commit.label}" compiles it, make follow if it is of main'
            )
        return {}
    try:
        cubins = [store.object_path(kernel.objects["cubin"]) for kernel in evidence.kernels]
        paths = [store.record_path(target, commit.commit, case, name), *cubins]
        contents = {path.relative_to(store.root).as_posix(): path.read_bytes() for path in paths}
    except (KeyError, OSError) as error:
        raise TrackerError(
            f"{name} at {commit.label}: its cubin is not in {store.root} ({error}); make track renews it"
        ) from error
    return {name: base64.b64encode(content).decode() for name, content in contents.items()}


def write_request(path: Path, request: Request) -> None:
    atomic_write(path, msgspec.json.encode(request))


def read_request(path: Path) -> Request:
    """Raises TrackerError naming the file if it is damaged, or names anything outside a store."""
    try:
        request = msgspec.json.decode(read_regular(path, 64 * 2**20), type=Request)
        if request.schema != SCHEMA:
            raise ValueError(f"schema {request.schema}, this program reads {SCHEMA}")
        _check(request)
        for name in request.files:
            if not _RECORD.fullmatch(name) and not _OBJECT.fullmatch(name):
                raise ValueError(f"{name[:100]!r} is no place in an evidence store")
    except (OSError, ValueError, KeyError, RecursionError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not a request ({error}); write it again with scripts.confirm") from error
    return request


def _check(request: Request) -> None:
    """Raises ValueError. Everything here becomes a path, a plan or a line on the terminal."""
    if not _FINDING.fullmatch(request.finding):
        raise ValueError(f"{request.finding[:100]!r} is no id of a finding")
    for side in (request.before, request.after):
        if not (HASH.fullmatch(side.commit) and LABEL.fullmatch(side.label)):
            raise ValueError("a commit or label is none")
    if request.before.commit == request.after.commit:
        raise ValueError("both sides are one commit")
    if request.candidate == request.reference or request.of not in ("time", "ratio"):
        raise ValueError("nothing to compare")
    if not {request.candidate, request.reference} <= set(request.variants):
        raise ValueError("its variants lack the candidate or the reference")
    if not all(WORD.fullmatch(variant) for variant in request.variants):
        raise ValueError("a variant is no plain word")
    numbers = [request.case[name] for name in ("head_dim", "n_ctx", "batch", "heads")]
    if not all(type(n) is int and 0 < n <= 2**22 for n in numbers) or request.case["dtype"] not in _DTYPES:
        raise ValueError("its case is none")
    if type(request.case["causal"]) is not bool:
        raise ValueError("its case is none")


def unpack(request: Request, root: Path) -> None:
    """Make a small evidence store of a request's files. Raises TrackerError for damaged ones."""
    for name, content in request.files.items():
        try:
            atomic_write(root / name, base64.b64decode(content, validate=True))
        except binascii.Error as error:
            raise TrackerError(f"the request's {name} is damaged ({error}); write it again") from error


def plan_of(request: Request, store: Path, out: Path, session: int, policy: ConfirmPolicy) -> dict[str, Any]:
    """One session of the sequence: see `kernels.plan.Plan`. Never from an archive: it must be fresh."""
    seed = hashlib.sha256(f"{request.finding} {session}".encode()).digest()
    return {
        "store": str(store),
        "out": str(out),
        "target": request.target,
        "commits": [[c.commit, c.label] for c in (request.before, request.after)],
        "variants": request.variants,
        "cases": [request.case],
        "seed": int.from_bytes(seed[:4], "big"),
        "min_blocks": policy.blocks,
        "max_blocks": policy.blocks,
        "backward_blocks": 0,
        # torch takes longer to start than a confirmation to run; the controls tell what is compiler-wide.
        "canaries": ["device_copy"],
        "budget_s": policy.budget_s,
        "fresh": True,
    }
