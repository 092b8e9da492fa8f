"""Histories of consecutive commits, made up: what each variant's time did, commit by commit."""

from __future__ import annotations

import random
from collections.abc import Sequence

from builders import FACTS, HD64, TARGET, VERSION

from scripts.tracker.judge import judge
from scripts.tracker.measured import History
from scripts.tracker.model import (
    Case,
    CodegenMeasurement,
    Commit,
    Evidence,
    Finding,
    Kernel,
    MeasurementStatus,
    TimingMeasurement,
    Verdict,
)
from scripts.tracker.steps import Judgement

CASE = Case(64, True, "fp16", n_ctx=2048)
CANARY = "sdpa_cudnn"
# One commit: one value, or a value for each of its sessions. None: no valid data.
Values = Sequence[float | tuple[float, ...] | None]
BLOCKS = 8
SPREAD = 0.001  # of one session's value of one variant
DRIFT = 0.01  # what all of a session share


def flat(n: int, value: float = 1.0) -> list[float]:
    return [value] * n


def step(at: int, size: float, n: int = 60) -> list[float]:
    return flat(at) + flat(n - at, 1 + size)


def commits(n: int) -> list[Commit]:
    return [Commit(f"{i:08x}" + "c0ffee00" * 4, f"c{i}") for i in range(n)]


def timed(
    commit: Commit,
    variant: str,
    value: float | None,
    session: str,
    case: Case = CASE,
    setup: str = "gpu H200",
) -> TimingMeasurement:
    """Samples of one session: ``value`` milliseconds, with the session's drift and its own small spread."""
    shared = 1 + random.Random(session).gauss(0, DRIFT)
    own = random.Random(f"{session} {variant} {case}")
    centre = (value or 0.0) * 1e-3 * shared * (1 + own.gauss(0, SPREAD))
    status = MeasurementStatus.FAILED if value is None else MeasurementStatus.OK
    samples = tuple(centre * (1 + own.gauss(0, SPREAD)) for _ in range(BLOCKS)) if value is not None else ()
    return TimingMeasurement(commit.commit, variant, case, status, session, samples, VERSION, "gpu", setup)


def lived(
    series: dict[str, Values],
    n: int,
    canary: Values | dict[str, Values] | None = None,
    code: dict[str, Sequence[str]] | None = None,
    left_out: Sequence[int] = (),
    setups: Sequence[str] | None = None,
    cases: Sequence[Case] = (CASE,),
) -> History:
    """``n`` commits, a session each unless a value says more; variants not named stay at 1 ms.

    ``canary``: what CANARY did, or several by name.
    ``code``: names of the kernels of a variant, commit by commit. ``left_out``: commits not measured.
    ``setups``: GPU and driver, commit by commit.
    """
    order = commits(n)
    history = History(commits=order, variants=dict(FACTS))
    canaries = canary if isinstance(canary, dict) else {CANARY: canary} if canary else {}
    rows = {v: series.get(v, [1.0] * n) for v in FACTS} | canaries
    for i, commit in enumerate(order):
        sessions = max(len(v[i]) if isinstance(v[i], tuple) else 1 for v in rows.values())
        for variant, values in rows.items():
            value = values[i]
            repeats = value if isinstance(value, tuple) else (value,) * sessions
            for k, seconds in enumerate(repeats if i not in left_out else ()):
                into = history.canaries if variant in canaries else history.timings
                setup = setups[i] if setups else "gpu H200"
                into += [timed(commit, variant, seconds, f"gpu {i}.{k}", c, setup) for c in cases]
        for variant, names in (code or {}).items():
            history.measurements.append(compiled(commit, variant, names[i]))
    return history


def compiled(commit: Commit, variant: str, identity: str) -> CodegenMeasurement:
    kernels = (Kernel("backward", identity, {}, {}),)
    found = Evidence(commit.commit, commit.label, VERSION, variant, "ok", None, kernels)
    return CodegenMeasurement(commit.commit, variant, HD64, TARGET, MeasurementStatus.OK, {}, VERSION, found)


def judged(series: dict[str, Values] | Values, n: int = 0, **about: object) -> Judgement:
    """Of a history; a bare list is atomic_add's."""
    if not isinstance(series, dict):
        series = {"atomic_add": series}
    n = n or len(next(iter(series.values())))
    return judge(lived(series, n, **about))  # type: ignore[arg-type]


def told(judgement: Judgement, reference: str = "store") -> list[tuple[Verdict, str, str]]:
    """(verdict, before, after) against one reference, in order."""
    return [(f.verdict, f.before.label, f.after.label) for f in of(judgement, reference)]


def of(judgement: Judgement, reference: str = "store") -> list[Finding]:
    return [f for f in judgement.findings if f.reference == reference]
