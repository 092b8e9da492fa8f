"""Small inputs of the judging half, in the shapes that asv and the measuring half write."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import zstandard

from scripts.tracker.harness import Suite
from scripts.tracker.measured import History
from scripts.tracker.model import (
    Case,
    CodegenChange,
    CodegenMeasurement,
    Commit,
    Evidence,
    Finding,
    Kernel,
    MeasurementStatus,
    Role,
    Stage,
    VariantFacts,
    Verdict,
)
from scripts.tracker.results import BuildFailure

TARGET = "cuda:90"
VERSION = "fingerprint-1"
HD64 = Case(64, True, "fp16")
HD128 = Case(128, True, "fp16")
NAN = math.nan

# As many digits as git has: the results' file names hold the first eight.
COMMITS = [Commit(f"{n:08x}" + "c0ffee00" * 4, f"3.{n}.0") for n in range(1, 5)]
OLD, NEW = COMMITS[0], COMMITS[1]

FACTS = {
    "atomic_add": VariantFacts(Role.CANDIDATE, True, "tl.atomic_add"),
    "inline_asm": VariantFacts(Role.REFERENCE, True, "scalar red in inline assembly"),
    "store": VariantFacts(Role.REFERENCE, False, "plain tl.store, wrong by design"),
    "none": VariantFacts(Role.CONTROL, False, "dQ is never made"),
}
ROLES = {name: facts.role for name, facts in FACTS.items()}

PATH = {
    "ttir": {"tt.atomic_rmw fadd": 2},
    "ttgir": {"tt.atomic_rmw fadd": 2, "ttg.convert_layout": 2},
    "llir": {"atom.add.v4.f32": 8},
    "ptx": {"atom.add.v4.f32": 8},
    "sass": {"REDG.F32x4": 8},
}

# A suite of one variant and two metrics, and what asv says of it when all went well.
TABLE: dict[str, dict[str, float | None]] = {"atomic_add": {"dq_writes": 8.0, "registers": 255.0}}
SUITE = Suite(
    version=VERSION,
    benchmarks=[f"codegen.CodeGeneration.track_{name}" for name in TABLE["atomic_add"]],
    params=[["'atomic_add'"], ["64"], ["True"], ["'fp16'"], ["'cuda:90'"]],
    param_names=["variant", "head_dim", "causal", "dtype", "target"],
    records=1,
    variants={"atomic_add": FACTS["atomic_add"]},
)


def evidence(
    commit: Commit = OLD,
    variant: str = "atomic_add",
    identity: str = "code 1",
    path: dict[str, dict[str, int]] | None = None,
    status: str = "ok",
    message: str | None = None,
) -> Evidence:
    kernels = (Kernel("backward", identity, PATH if path is None else path, {}),) if status == "ok" else ()
    return Evidence(commit.commit, commit.label, VERSION, variant, status, message, kernels)


def measured(
    commit: Commit,
    variant: str,
    metrics: dict[str, float | None] | None = None,
    status: MeasurementStatus = MeasurementStatus.OK,
    found: Evidence | None = None,
    case: Case = HD64,
    target: str = TARGET,
) -> CodegenMeasurement:
    return CodegenMeasurement(commit.commit, variant, case, target, status, metrics or {}, VERSION, found)


def asv_document(
    commit: Commit,
    table: dict[str, dict[str, float | None]],
    head_dims: tuple[int, ...] = (64,),
    version: str = VERSION,
    target: str = TARGET,
) -> dict[str, Any]:
    """asv's result file as of API 2. ``table``: {variant: {metric: value}}, the same for each head_dim."""
    params = [[repr(v) for v in table], [repr(d) for d in head_dims], ["True"], ["'fp16'"], [repr(target)]]
    names = list(dict.fromkeys(name for metrics in table.values() for name in metrics))
    results = {
        f"codegen.CodeGeneration.track_{name}": [
            [metrics.get(name, NAN) for metrics in table.values() for _ in head_dims],
            params,
            version,
            1796127570464,
            0.3,
        ]
        for name in names
    }
    return {
        "commit_hash": commit.commit,
        "env_name": "virtualenv-py3.11",
        "date": 1737547200000,
        "params": {"machine": f"codegen-{target.replace(':', '-')}", "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "samples"],
        "results": results,
        "durations": {"<build>": 9.0, "<setup_cache codegen:37>": 41.5},
        "version": 2,
    }


TIMED_VARIANTS = list(FACTS)
TIMED_SUITE = Suite(
    version=f"{VERSION}.method-1",
    benchmarks=["attention_backward.AttentionBackward.track_kernel"],
    params=[[repr(v) for v in TIMED_VARIANTS], ["2048", "8192"], ["64"], ["True"], ["'fp16'"]],
    param_names=["variant", "n_ctx", "head_dim", "causal", "dtype"],
    variants=FACTS,
)


def timed_document(
    commit: Commit,
    seconds: dict[tuple[str, int], list[float]],
    version: str = TIMED_SUITE.version,
    started_at: int = 1796127570464,
) -> dict[str, Any]:
    """A GPU machine's result file. ``seconds``: samples by variant and n_ctx; others were not asked for."""
    keys = [(v, n) for v in TIMED_VARIANTS for n in (2048, 8192)]
    samples = [seconds.get(key) for key in keys]
    values = [s[0] if s else NAN for s in samples]
    return {
        **asv_document(commit, {}),
        "params": {"machine": "h200", "gpu": "NVIDIA H200", "driver": "580.1", "python": "3"},
        "results": {
            TIMED_SUITE.benchmarks[0]: [values, TIMED_SUITE.params, version, started_at, 0.3, samples]
        },
    }


def write_asv(results: Path, document: dict[str, Any]) -> Path:
    folder = results / str(document["params"]["machine"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{document['commit_hash'][:8]}-virtualenv-py3.11.json"
    path.write_text(json.dumps(document))
    return path


def write_lists(results: Path, commits: list[Commit] = COMMITS) -> None:
    """commits.json and variants.json of a results folder."""
    results.mkdir(parents=True, exist_ok=True)
    (results / "commits.json").write_text(
        json.dumps([{"commit": c.commit, "label": c.label} for c in commits])
    )
    facts = {n: {"role": f.role, "exact": f.exact, "summary": f.summary} for n, f in FACTS.items()}
    (results / "variants.json").write_text(json.dumps(facts))


def write_object(store: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    path = store / "objects" / digest[:2] / f"{digest}.zst"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(content))
    return digest


def record_document(
    commit: Commit = OLD,
    variant: str = "atomic_add",
    status: str = "ok",
    message: str | None = None,
    objects: dict[str, str] | None = None,
    **changed: Any,
) -> dict[str, Any]:
    kernel = {"role": "backward", "identity": "code 1", "dq_path": PATH, "objects": objects or {}}
    return {
        "schema": 1,
        "commit": commit.commit,
        "triton_version": commit.label,
        "fingerprint": VERSION,
        "target": TARGET,
        "case": {"head_dim": 64, "causal": True, "dtype": "fp16"},
        "variant": variant,
        "status": status,
        "message": message,
        "kernels": [kernel] if status == "ok" else [],
        **changed,
    }


def write_record(store: Path, record: dict[str, Any]) -> Path:
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    document = {"sha256": hashlib.sha256(canonical).hexdigest(), "record": record}
    case = f"hd{record['case']['head_dim']}-causal-fp16"
    folder = store / "records" / "cuda-90" / str(record["commit"]) / case
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['variant']}.json"
    path.write_text(json.dumps(document, indent=1, sort_keys=True))
    return path


def finding(
    verdict: Verdict,
    *changes: CodegenChange,
    candidate: str = "atomic_add",
    reference: str = "inline_asm",
    before: Commit = OLD,
    after: Commit = NEW,
    case: Case = HD64,
    unmeasured: int = 0,
    explanation: str = "atomic_add: what changed, in words.",
) -> Finding:
    words = f"{candidate} {reference} {case} {before.label} {after.label}"
    return Finding(
        id=hashlib.sha256(words.encode()).hexdigest()[:12],
        verdict=verdict,
        evidence=("codegen",),
        candidate=candidate,
        reference=reference,
        case=case,
        target=TARGET,
        before=before,
        after=after,
        first_changed_stage=Stage.LLIR,
        codegen_changes=changes,
        unmeasured_commits=unmeasured,
        explanation=explanation,
    )


WIDER = CodegenChange("atomic_add", "dq_vector_width", 1, 4, "wider writes of dQ")
NARROWER = CodegenChange("atomic_add", "dq_vector_width", 4, 1, "narrower writes of dQ")
MORE_FENCES = CodegenChange("atomic_add", "gpu_fences", 0, 32, "more fences before the writes of dQ")
THEIRS = CodegenChange("inline_asm", "dq_layout_conversions", 1, 0, "fewer layout conversions on dQ's path")
LONGER = [CodegenChange(v, "main_loop_instructions", 500, 650, "a longer main loop") for v in FACTS]

DEVICE = {"gpu": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "power_limit_w": 700.0}


def subject_document(commit: Commit, variant: str, seconds: list[float], **changes: Any) -> dict[str, Any]:
    """One (commit, variant) of a session's file, timed by itself."""
    entry = {
        "commit": commit.commit,
        "label": commit.label,
        "copy": 1,
        "variant": variant,
        "status": "ok",
        "message": None,
        "identity": ["code 1"],
        "shared_with": None,
        "errors": None,
        "kernel_s": seconds,
        "backward_s": [],
    }
    return {**entry, **changes}


def block_document(series: str = "kernel", valid: bool = True, capped: bool = False) -> dict[str, Any]:
    reading = {
        "sm_clock_mhz": 1980,
        "power_capped": capped,
        "invalid_reasons": [] if valid else ["hw_thermal"],
    }
    return {"series": series, "valid": valid, "process": 1, "before": reading, "after": reading}


def session_document(
    subjects: list[dict[str, Any]], blocks: list[dict[str, Any]], **changes: Any
) -> dict[str, Any]:
    """One case of a session, as `kernels.session_file` writes it."""
    document = {
        "schema": 2,
        "complete": True,
        "status": "ok",
        "note": None,
        "target": TARGET,
        "case": {"head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": 2048, "batch": 4, "heads": 8},
        "device": DEVICE,
        "started_at": "2026-12-01T13:00:00+00:00",
        "reused_from": None,
        "subjects": subjects,
        "canaries": {},
        "blocks": blocks,
    }
    return {**document, **changes}


# One list of findings for each verdict that the judgement of generated code can give.
FINDINGS = {
    "regression": [
        finding(Verdict.REGRESSION, NARROWER, MORE_FENCES),
        finding(Verdict.REGRESSION, NARROWER, MORE_FENCES, reference="store"),
        finding(Verdict.REGRESSION, NARROWER, case=HD128),
    ],
    "improvement": [finding(Verdict.IMPROVEMENT, WIDER, THEIRS, after=COMMITS[3], unmeasured=2)],
    "reference_moved": [finding(Verdict.REFERENCE_MOVED, THEIRS)],
    "compiler_wide": [finding(Verdict.COMPILER_WIDE, *LONGER[:2])],
    "no_valid_data": [
        finding(
            Verdict.NO_VALID_DATA,
            explanation="atomic_add compiled at 3.1.0 and is failed now: ptxas: boom.",
        )
    ],
}


def history() -> History:
    """Two commits: one variant compiles, one is skipped, one fails; a third commit has no wheel."""
    path = {**PATH, "llir": {"atom.add.f32": 32}, "ptx": {"atom.add.f32": 32}, "sass": {"REDG.F32": 32}}
    measurements = [
        measured(OLD, "atomic_add", {"dq_vector_width": 4, "registers": 255}, found=evidence(OLD)),
        measured(NEW, "atomic_add", {"dq_vector_width": 1, "registers": 255}, found=evidence(NEW, path=path)),
        measured(NEW, "inline_asm", {"dq_vector_width": 1}),
        measured(NEW, "store", status=MeasurementStatus.SKIPPED),
        measured(NEW, "none", status=MeasurementStatus.FAILED),
    ]
    failures = {TARGET: {COMMITS[2].commit: BuildFailure("no wheel of triton==3.3.0", False)}}
    return History(commits=list(COMMITS), measurements=measurements, failures=failures, variants=dict(FACTS))
