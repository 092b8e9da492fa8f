"""Made-up histories with known truth, for `replay`. Pure; every number comes from a seed.

The noise is that of the study behind policy.toml: a session's drift (an AR(1) wander of 1 % and two shifts of
1 to 3 %) that variants follow a little differently, 0.4 % that a session's variants share, each variant's
own spread with heavy tails (Student's t, four degrees of freedom), single spikes in 1.5 % of the values, and
whole sessions that are off in 0.5 %. 8 % of the commits have no measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scripts.tracker.model import Case, Commit, Role, Verdict
from scripts.tracker.series import FloatArray, Panel

ROLES = {
    "atomic_add": Role.CANDIDATE,
    "inline_asm": Role.REFERENCE,
    "store": Role.REFERENCE,
    "none": Role.CONTROL,
    "sdpa_cudnn": Role.CANARY,
    "device_copy": Role.CANARY,
}
CANDIDATE = 0
SPREADS = (0.003, 0.005, 0.01, 0.02)
_MISSING = 0.08
_SPIKES, _BAD_SESSIONS = 0.015, 0.005


class Kind(StrEnum):
    """What happened in a world."""

    NOTHING = "nothing"
    STEP = "step of the candidate"
    REFERENCE = "step of a reference"
    COMPILER = "step of every variant"
    MACHINE = "step of every variant and the canaries"
    UNSTABLE = "two values at random"


EXPECTED = {
    Kind.STEP: Verdict.REGRESSION,
    Kind.REFERENCE: Verdict.REFERENCE_MOVED,
    Kind.COMPILER: Verdict.COMPILER_WIDE,
    Kind.MACHINE: Verdict.ENVIRONMENT,
    Kind.UNSTABLE: Verdict.UNSTABLE,
}


@dataclass(frozen=True, slots=True)
class World:
    """``at``: the first commit after the change, as a column of the panel. ``cases``: those that changed.
    ``size``: of the change, a share."""

    kind: Kind
    panel: Panel
    at: int
    size: float
    cases: tuple[int, ...]


def make_world(kind: Kind, size: float, seed: int, commits: int = 300, cases: int = 8) -> World:
    """Every second case changes, in the middle third. Spreads go round: changed and unchanged share them."""
    random = np.random.default_rng(seed)
    measured = np.flatnonzero(random.random(commits) >= _MISSING)
    n = len(measured)
    log_s = _noise(random, cases, n)
    at = int(random.integers(n // 3, 2 * n // 3))
    changed = tuple(range(0, cases, 2)) if kind is not Kind.NOTHING else ()
    names = list(ROLES)
    moving = {
        Kind.NOTHING: [],
        Kind.STEP: ["atomic_add"],
        Kind.REFERENCE: ["store"],
        Kind.COMPILER: [v for v, role in ROLES.items() if role is not Role.CANARY],
        Kind.MACHINE: names,
        Kind.UNSTABLE: ["atomic_add"],
    }[kind]
    for case in changed:
        for variant in moving:
            after = log_s[case, names.index(variant), at:]
            after += np.log1p(size) * (random.random(n - at) < 0.5 if kind is Kind.UNSTABLE else 1.0)
    return World(kind, panel_of(log_s, measured, names), at, size, changed)


def panel_of(log_s: FloatArray, positions: np.ndarray, variants: list[str]) -> Panel:
    """A panel of one session a commit, without evidence of the code."""
    n_cases, _, n = log_s.shape
    return Panel(
        epoch="simulated",
        target="simulated",
        commits=tuple(Commit(f"{p:040x}", f"c{p}") for p in positions.tolist()),
        positions=positions.astype(np.int64),
        cases=tuple(Case(64, True, "fp16", n_ctx=1024 * (i + 1)) for i in range(n_cases)),
        variants=tuple(variants),
        canaries=tuple(v for v in variants if ROLES.get(v) is Role.CANARY),
        log_s=log_s,
        commit_of=np.arange(n),
        session_of=np.arange(n),
        codes=np.full((n_cases, len(variants), n), -1, dtype=np.int64),
        listed=np.ones((n_cases, len(variants), n), dtype=np.bool_),
    )


def head(panel: Panel, n: int) -> Panel:
    """What the first ``n`` commits show: a detector that runs then knows no more."""
    return Panel(
        epoch=panel.epoch,
        target=panel.target,
        commits=panel.commits[:n],
        positions=panel.positions[:n],
        cases=panel.cases,
        variants=panel.variants,
        canaries=panel.canaries,
        log_s=panel.log_s[..., :n],
        commit_of=panel.commit_of[:n],
        session_of=panel.session_of[:n],
        codes=panel.codes[..., :n],
        listed=panel.listed[..., :n],
    )


def _noise(random: np.random.Generator, cases: int, n: int) -> FloatArray:
    """[case, variant, commit]: everything but the change."""
    n_variants = len(ROLES)
    wander = np.zeros(n)
    for i in range(1, n):
        wander[i] = 0.95 * wander[i - 1] + random.normal(0, 0.01 * np.sqrt(1 - 0.95**2))
    for place in random.integers(0, n, 2):
        wander[place:] += random.uniform(0.01, 0.03) * random.choice((-1, 1))
    session = wander + random.normal(0, 0.004, n)
    session += np.where(random.random(n) < _BAD_SESSIONS, random.uniform(0.03, 0.25, n), 0.0)
    follows = 1 + random.normal(0, 0.1, (cases, n_variants, 1))
    spread = np.array([SPREADS[i // 2 % len(SPREADS)] for i in range(cases)])[:, None, None]
    own = random.standard_t(4, (cases, n_variants, n)) / np.sqrt(2) * spread
    spikes = random.random(own.shape) < _SPIKES
    own += np.where(spikes, random.uniform(0.03, 0.25, own.shape), 0.0)
    level = np.log(random.uniform(5e-4, 2e-3, (cases, n_variants, 1)))
    return np.asarray(level + session * follows + own)
