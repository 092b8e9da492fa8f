"""One commit's GPU session, shared by the suites that hand its samples to asv.

The first suite that asks runs it, the others find its files: sessions are kept in `.cache/sessions`. Beside
the commit a session times its parent (the nearest ancestor that was compiled) and the store's anchor (the
first commit that was ever timed from it, frozen), paired in one process. asv gets the commit's own samples;
those of the other two stay in the session's files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import _cases
from kernels.fingerprint import timing_fingerprint

_ROOT = Path(__file__).resolve().parent.parent
SESSION_BUDGET_S = 300.0
BATCH, HEADS = 4, 8  # issue 4717's


def no_gpu_reason() -> str | None:
    """Why nothing can be timed here; None if it can."""
    try:
        from kernels.launch import Gpu, LaunchError
    except ImportError as error:
        return f"what a session needs is not installed: {error}"
    try:
        gpu = Gpu()
    except LaunchError as error:
        return str(error)
    if f"cuda:{gpu.compute_capability}" != _cases.target():
        return f"this GPU is cuda:{gpu.compute_capability}, the target is {_cases.target()}"
    return None


def session_of_commit() -> dict[str, Any]:
    """{"skipped": reason}, or {"documents": the session's files, a case each, "commit"}.

    Compiles first what the evidence store does not have. Raises RuntimeError if the session failed.
    """
    reason = no_gpu_reason()
    if reason is not None:
        print(f"skipped: {reason}", file=sys.stderr)
        return {"skipped": reason}
    commit = _cases.commit()
    _compile(commit)
    beside = dict.fromkeys((_anchor(commit), _parent(commit)))
    others = [other for other in beside if other not in (None, commit)]
    folder = sessions_root() / f"{commit[:12]}-{timing_fingerprint()}"
    plan_file = folder / "plan.json"
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_of([*others, commit], folder)
    plan_file.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "benchmarks.session", str(plan_file)]
    done = subprocess.run(command, cwd=_ROOT, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    print(done.stderr, file=sys.stderr)
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("hd*.json"))]
    if not documents:
        raise RuntimeError(f"the GPU session gave nothing: {done.stderr.strip()[-300:]}")
    return {"documents": documents, "commit": commit}


def plan_of(commits: list[str], folder: Path) -> dict[str, Any]:
    """Every variant and shape; its samples go to ``folder`` and serve later sessions from there."""
    return {
        "store": str(_cases.evidence_root()),
        "out": str(folder),
        "archive": str(folder.parent),
        "target": _cases.target(),
        "commits": [[commit, commit[:10]] for commit in commits],
        "variants": _cases.VARIANTS,
        "cases": [
            {
                "head_dim": c.head_dim,
                "causal": c.causal,
                "dtype": c.dtype,
                "n_ctx": n_ctx,
                "batch": BATCH,
                "heads": HEADS,
            }
            for c in _cases.codegen_cases()
            for n_ctx in _cases.N_CTX
        ],
        "seed": int(commits[-1][:8], 16),
        "budget_s": SESSION_BUDGET_S,
    }


def sessions_root() -> Path:
    """Where sessions are kept: ATOMWATCH_SESSIONS, or .cache/sessions of this checkout."""
    return Path(os.environ.get("ATOMWATCH_SESSIONS", _ROOT / ".cache" / "sessions"))


def document_of(cache: dict[str, Any], **case: Any) -> dict[str, Any]:
    """The session's file of a case. Raises RuntimeError if it has none, or no valid data."""
    for document in cache["documents"]:
        if all(document["case"][name] == value for name, value in case.items()):
            if document["status"] != "ok" or not document["complete"]:
                raise RuntimeError(f"{document['status']}: {document['note']}")
            return dict(document)
    raise RuntimeError(f"the session has no file of {case}: its log, above, says why")


def valid_samples(document: dict[str, Any], samples: list[float], series: str = "kernel") -> list[float]:
    """Those of blocks without throttling."""
    valid = [block["valid"] for block in document["blocks"] if block["series"] == series]
    return [sample for sample, is_valid in zip(samples, valid, strict=True) if is_valid]


def subject_of(document: dict[str, Any], commit: str, variant: str) -> dict[str, Any]:
    """What was measured of one variant, by itself or shared. Raises RuntimeError if it failed."""
    by_key = {(s["commit"], s["variant"]): s for s in document["subjects"]}
    subject = by_key[commit, variant]
    if subject["status"] not in ("ok", "unsupported"):
        raise RuntimeError(f"{variant}: {subject['status']}: {subject['message']}")
    return dict(by_key[tuple(subject["shared_with"])] if subject["shared_with"] else subject)


def _compile(commit: str) -> None:
    from kernels.evidence import EvidenceWriter
    from kernels.record import record_all
    from kernels.variants import Variant

    writer = EvidenceWriter(_cases.evidence_root())
    for _ in record_all(writer, commit, _cases.target(), _cases.codegen_cases(), list(Variant)):
        pass


def _compiled() -> Path:
    return _cases.evidence_root() / "records" / _cases.target().replace(":", "-")


def _anchor(commit: str) -> str | None:
    """The frozen commit of this store; the first one timed becomes it. None if its records are gone."""
    pointer = _cases.evidence_root() / f"anchor-{_cases.target().replace(':', '-')}"
    if not pointer.exists():
        pointer.write_text(commit + "\n")
    anchor = pointer.read_text().strip()
    return anchor if (_compiled() / anchor).is_dir() else None


def _parent(commit: str) -> str | None:
    """The nearest first-parent ancestor that was compiled, by asv's checkout; None if there is none."""
    checkout = os.environ.get("ASV_BUILD_DIR")
    if not checkout:
        return None
    command = ["git", "-C", checkout, "rev-list", "--first-parent", "--max-count=1000", f"{commit}^"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return next((line for line in done.stdout.split() if (_compiled() / line).is_dir()), None)
