"""The words of the glossary as types. Values only: nothing here reads, writes or decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a variant is for when two are compared."""

    CANDIDATE = "candidate"
    REFERENCE = "reference"
    CONTROL = "control"
    CANARY = "canary"  # work that no Triton commit can change: no variant, but timed beside them


@dataclass(frozen=True, slots=True)
class VariantFacts:
    """What is true of a way to accumulate dQ. ``exact``: False where dQ is wrong by design."""

    role: Role
    exact: bool
    summary: str


class Stage(StrEnum):
    """The compiler's stages, in order."""

    TTIR = "ttir"
    TTGIR = "ttgir"
    LLIR = "llir"
    PTX = "ptx"
    SASS = "sass"


class MeasurementStatus(StrEnum):
    """What asv says about one case of one commit. Not measured at all is the absence of a measurement."""

    OK = "ok"
    SKIPPED = "skipped"  # this Triton or target has no such operation
    FAILED = "failed"  # the compiler refused, crashed or hung


# What the evidence store calls the same.
STATUS_IN_STORE = {
    MeasurementStatus.OK: "ok",
    MeasurementStatus.SKIPPED: "unsupported",
    MeasurementStatus.FAILED: "failed",
}


class Verdict(StrEnum):
    """What a finding says. `no_change` is counted and never listed."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    REFERENCE_MOVED = "reference_moved"
    COMPILER_WIDE = "compiler_wide"
    ENVIRONMENT = "environment"
    UNSTABLE = "unstable"
    PENDING = "pending"
    NO_VALID_DATA = "no_valid_data"
    NO_CHANGE = "no_change"

    @property
    def is_public(self) -> bool:
        """Whether others are told: not what waits for a session, and not what no commit did."""
        return self not in (Verdict.PENDING, Verdict.ENVIRONMENT, Verdict.UNSTABLE, Verdict.NO_CHANGE)


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """A problem size. None: does not apply (generated code does not depend on n_ctx, batch, heads)."""

    head_dim: int
    causal: bool
    dtype: str
    n_ctx: int | None = None
    batch: int | None = None
    heads: int | None = None

    def __str__(self) -> str:
        words = [f"head_dim {self.head_dim}", "causal" if self.causal else "full", self.dtype]
        return ", ".join(words + ([f"n_ctx {self.n_ctx}"] if self.n_ctx is not None else []))

    @property
    def slug(self) -> str:
        """Its folder in the evidence store."""
        return f"hd{self.head_dim}-{'causal' if self.causal else 'full'}-{self.dtype}"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of Triton. ``label``: what people call it (a release number), or the short hash."""

    commit: str
    label: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One compiled kernel of a variant, as the evidence store has it.

    ``dq_path``: for each stage, the operations on dQ's path and how often they stand there.
    ``objects``: sha256 of each stage's text and of the cubin.
    """

    role: str
    identity: str
    dq_path: dict[str, dict[str, int]]
    objects: dict[str, str]
    opcodes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One record of the store: what one Triton made of one variant for one case and target. ``metrics``: of
    all its kernels together; None where it did not compile, and for what is no variant."""

    commit: str
    triton_version: str
    fingerprint: str
    variant: str
    status: str
    message: str | None
    kernels: tuple[Kernel, ...]
    metrics: dict[str, float | None] | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """Kernel identities of its kernels; equal: the GPU is asked to do exactly the same."""
        return tuple(kernel.identity for kernel in self.kernels)

    def dq_path(self, stage: Stage) -> dict[str, int]:
        """dQ's path in one stage, over all kernels: in `two_pass` the second one makes dQ."""
        counts: Counter[str] = Counter()
        for kernel in self.kernels:
            counts.update(kernel.dq_path.get(stage, {}))
        return dict(counts)


@dataclass(frozen=True, slots=True)
class CodegenMeasurement:
    """All metrics of one variant's code at one commit, from asv; with the evidence where the store has it.

    ``metrics``: name to number; None where the metric does not apply. Empty unless the status is OK.
    """

    commit: str
    variant: str
    case: Case
    target: str
    status: MeasurementStatus
    metrics: dict[str, float | None]
    version: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class TimingMeasurement:
    """GPU time of one variant, case and commit: valid samples in seconds, in block order.

    ``session``: samples of one session may be paired block by block. ``machine``: asv's name for it.
    ``setup``: GPU, driver and power limit, in words. Canaries have their name as ``variant``.
    """

    commit: str
    variant: str
    case: Case
    status: MeasurementStatus
    session: str
    samples_s: tuple[float, ...]
    version: str
    machine: str
    setup: str = ""

    @property
    def epoch_key(self) -> str:
        """Times are compared within one epoch only: same machine, set-up and version of the method."""
        return " ".join(filter(None, (self.machine, self.setup, f"version {self.version}")))


@dataclass(frozen=True, slots=True)
class CodegenChange:
    """One metric of ``variant`` (the finding's candidate or reference) before and after, in words."""

    variant: str
    metric: str
    before: float
    after: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A commit that may have done it. ``score``: its share of all scores of the range; it ranks, and is no
    probability.

    ``subject``: other people's words, shown in a code span only. ``how`` the pull request is known. ``bump``:
    what a moved pin pulls in, None if it is none; a bump's author did not write it.
    """

    commit: str
    pr: int | None
    score: float
    why: str
    subject: str = ""
    how: str = ""
    bump: str | None = None


class Decision(StrEnum):
    """What a confirmation says. SAME: no difference that would matter. UNKNOWN: the budget ended first."""

    DIFFERENT = "DIFFERENT"
    SAME = "SAME"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Effect:
    """A change as a share (0.7 is 70 % more), with its interval."""

    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Leg:
    """A variant's own time, absolute: medians over all valid blocks, in seconds. ``kernels``: identities of
    what was timed, before and after."""

    variant: str
    before_s: float
    after_s: float
    effect: Effect
    kernels: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What fresh sessions said of a finding; see `confirmation`. ``of``: what was asked, "ratio" or the
    candidate's own "time"."""

    schema: int
    finding: str
    decision: Decision
    of: str
    reason: str
    ratio: Effect
    legs: tuple[Leg, ...]
    sessions: int
    gpu: str
    driver: str
    started_at: str

    @property
    def asked(self) -> Effect:
        """The effect that was asked for; the first leg is the candidate's."""
        return self.ratio if self.of == "ratio" else self.legs[0].effect


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with its evidence; the JSON of `flag_regressions` has these fields and names.

    Ratios are times, candidate over reference; None without GPU time. ``unmeasured_commits``: how many
    commits between before and after have no measurement. ``candidate_change``: how the candidate's own
    time moved, where both commits were timed in one session or beside canaries; not in the JSON, the
    explanation says it.
    ``attribution``: how far the suspects can be trusted, or why there are none; not in the JSON either,
    `python -m scripts.attribute` says it.
    ``excerpt``: the difference on dQ's path in `first_changed_stage`, line by line. ``confirmation``: what
    fresh sessions said of it, None if none was asked.
    """

    id: str
    verdict: Verdict
    evidence: tuple[str, ...]
    candidate: str
    reference: str
    case: Case
    target: str
    before: Commit
    after: Commit
    first_changed_stage: Stage | None
    codegen_changes: tuple[CodegenChange, ...]
    unmeasured_commits: int
    explanation: str
    suspects: tuple[Suspect, ...] = ()
    ratio_before: float | None = None
    ratio_after: float | None = None
    change: float | None = None
    interval: tuple[float, float] | None = None
    minimum_detectable_change: float | None = None
    candidate_change: float | None = None
    attribution: str = ""
    excerpt: str | None = None
    confirmation: Confirmation | None = None

    @property
    def subject(self) -> str:
        """The variant whose code or time the verdict is about."""
        return self.reference if self.verdict is Verdict.REFERENCE_MOVED else self.candidate
