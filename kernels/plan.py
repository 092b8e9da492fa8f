"""What one GPU session is asked to do, as plain values. Standard library only: the supervisor and the
asv suites read plans on machines without a GPU, and a session starts faster for it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CANARIES = ("sdpa_flash", "sdpa_cudnn", "device_copy")


@dataclass(frozen=True)
class TimedCase:
    """A problem size. ``n_ctx`` must be a multiple of every tile (128): a timed shape has no padding."""

    head_dim: int
    causal: bool
    dtype: str
    n_ctx: int
    batch: int = 4
    heads: int = 8

    def __post_init__(self) -> None:
        if self.n_ctx <= 0 or self.n_ctx % 128:
            raise ValueError(f"n_ctx {self.n_ctx}: a timed shape is a multiple of 128")
        if min(self.head_dim, self.batch, self.heads) <= 0:
            raise ValueError(f"{self.slug}: head_dim, batch and heads are above 0")

    @property
    def codegen_slug(self) -> str:
        return f"hd{self.head_dim}-{'causal' if self.causal else 'full'}-{self.dtype}"

    @property
    def slug(self) -> str:
        return f"{self.codegen_slug}-n{self.n_ctx}-b{self.batch}-h{self.heads}"

    @property
    def cost(self) -> int:
        """Grows like the floating-point operations; to spread cases evenly over GPUs."""
        return self.batch * self.heads * self.n_ctx**2 * self.head_dim


@dataclass(frozen=True)
class Plan:
    """``commits``: [[commit, label], …]. A commit that stands there twice is timed twice, from two copies of
    the same cubins (A/A); otherwise equal kernels share one timing.

    Stop a case once every candidate's ratio to inline_asm is known to ``target_half_width`` (95 %, relative),
    after at least ``min_blocks`` valid blocks, at most ``max_blocks``, and ``budget_s`` seconds in all.
    ``backward_blocks``: blocks of the second series. ``canaries``: see `kernels.canary`.
    ``gpus``: UUIDs, empty for the first GPU; cases are spread over them, never the sides of a ratio.
    ``archive``: a folder of earlier sessions, whose samples are used again where every kernel of a case was
    timed before by this method on this GPU and driver; ``fresh``: not even then."""

    store: str
    out: str
    target: str
    commits: list[list[str]]
    variants: list[str]
    cases: list[dict[str, Any]]
    seed: int
    min_blocks: int = 8
    max_blocks: int = 20
    backward_blocks: int = 5
    target_half_width: float = 0.005  # what a fresh process adds is as much
    budget_s: float = 600.0
    canaries: tuple[str, ...] = CANARIES
    gpus: tuple[str, ...] = ()
    archive: str | None = None
    fresh: bool = False

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Raises OSError, or ValueError naming the file."""
        try:
            return cls.from_dict(json.loads(path.read_text()))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: not a plan ({error}); see kernels/plan.py") from error

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Plan:
        """Raises ValueError or TypeError for what is no plan."""
        tuples = {name: tuple(document[name]) for name in ("gpus", "canaries") if name in document}
        plan = cls(**{**document, **tuples})
        if not plan.commits or not plan.variants or not plan.cases:
            raise ValueError("no commits, variants or cases")
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in plan.commits):
            raise ValueError("commits are pairs of a commit and its label")
        if not 0 < plan.min_blocks <= plan.max_blocks or plan.backward_blocks < 0 or not plan.budget_s > 0:
            raise ValueError("0 < min_blocks <= max_blocks, 0 <= backward_blocks, 0 < budget_s")
        if not plan.target_half_width >= 0 or plan.seed < 0:
            raise ValueError("0 <= target_half_width, 0 <= seed")
        if unknown := set(plan.canaries) - set(CANARIES):
            raise ValueError(f"unknown canaries: {', '.join(sorted(unknown))}")
        cases = plan.timed_cases()
        if len(set(cases)) < len(cases) or len(set(plan.variants)) < len(plan.variants):
            raise ValueError("a case or a variant stands there twice")
        return plan

    def timed_cases(self) -> list[TimedCase]:
        return [TimedCase(**case) for case in self.cases]

    def sides(self) -> list[Side]:
        """Every commit of the plan, those listed twice told apart."""
        seen: dict[str, int] = {}
        sides = []
        for commit, label in self.commits:
            seen[commit] = seen.get(commit, 0) + 1
            sides.append(Side(commit, label, seen[commit]))
        return sides

    def key(self) -> dict[str, Any]:
        """What a result must share with a plan to count as its own."""
        wanted = ("target", "commits", "variants", "seed", "min_blocks", "max_blocks", "backward_blocks",
                  "target_half_width", "canaries")  # fmt: skip
        return {
            name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items() if name in wanted
        }

    def of_gpu(self, gpu: str, cases: list[TimedCase]) -> Plan:
        """The share of one worker."""
        return Plan(**{**asdict(self), "gpus": (gpu,), "cases": [asdict(case) for case in cases]})


@dataclass(frozen=True)
class Side:
    """One commit of a plan. ``copy``: 1, or 2 for the second of an A/A pair."""

    commit: str
    label: str
    copy: int


def spread(cases: list[TimedCase], gpus: list[str]) -> dict[str, list[TimedCase]]:
    """Cases of each GPU, the dearest first to the least busy; the same for the same plan and GPUs, so that a
    case of a series stays on its card."""
    load = dict.fromkeys(sorted(gpus), 0)
    shares: dict[str, list[TimedCase]] = {gpu: [] for gpu in load}
    for case in sorted(cases, key=lambda c: (-c.cost, c.slug)):
        gpu = min(load, key=lambda g: load[g])
        load[gpu] += case.cost
        shares[gpu].append(case)
    return {gpu: share[::-1] for gpu, share in shares.items() if share}
