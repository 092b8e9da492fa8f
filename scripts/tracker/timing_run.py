"""From a choice of commits to a session's plan. The session itself is run by the measuring half."""

from __future__ import annotations

import hashlib
import itertools
import json
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite, describe_suite
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import Case, Commit
from scripts.tracker.session_files import BATCH, HEADS
from scripts.tracker.workspace import Workspace

SUITES = ("benchmarks.attention_backward", "benchmarks.controls")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure a case. ``backward_blocks``: of the second series."""

    min_blocks: int
    max_blocks: int
    backward_blocks: int
    budget_s: float


def make_plan(
    workspace: Workspace,
    commits: list[Commit],
    variants: list[str],
    head_dims: list[int],
    n_ctx: list[int],
    effort: Effort,
    fresh: bool = False,
    seed: int = 1,
) -> dict[str, Any]:
    """A plan for `benchmarks.session` (see `kernels.plan.Plan`): all commits side by side in one process.

    Its folder is named by what it measures, so that the same choice goes on where it stopped. A ``fresh``
    one gets a folder beside the finished ones: what was measured before stays.
    """
    if not commits:
        raise TrackerError("nothing is compiled yet; make track does it")
    missing = [c.label for c in commits if not workspace.evidence.count_records(TIMED_TARGET, c.commit)]
    if missing:
        raise TrackerError(f"not compiled yet: {', '.join(missing)}; make track does it")
    plan: dict[str, Any] = {
        "store": str(workspace.evidence.root),
        "archive": str(workspace.sessions),
        "target": TIMED_TARGET,
        "commits": [[c.commit, c.label] for c in commits],
        "variants": variants,
        "cases": [
            {"head_dim": d, "causal": True, "dtype": "fp16", "n_ctx": n, "batch": BATCH, "heads": HEADS}
            for d, n in itertools.product(head_dims, n_ctx)
        ],
        "seed": seed,
        "min_blocks": effort.min_blocks,
        "max_blocks": effort.max_blocks,
        "backward_blocks": effort.backward_blocks,
    }
    name = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12]
    out = workspace.sessions / name
    if fresh:
        names = (f"{name}-fresh-{number}" for number in itertools.count(1))
        out = next(
            path for n in names if not _is_finished(path := workspace.sessions / n, len(plan["cases"]))
        )
    # The budget is no part of the name: more of it goes on where less of it stopped.
    return {**plan, "budget_s": effort.budget_s, "fresh": fresh, "out": str(out)}


def _is_finished(folder: Path, cases: int) -> bool:
    """Whether a session's folder has a finished file of each case."""
    try:
        files = [json.loads(path.read_bytes()) for path in folder.glob("hd*.json")]
    except (OSError, ValueError):
        return False
    return sum(isinstance(f, dict) and f.get("complete") is True for f in files) >= cases


def suite_choices(root: Path) -> tuple[list[str], list[int], list[int]]:
    """What the timed suite has: variants, n_ctx, head_dims."""
    return _choices(describe_suite(root, SUITES[0], TIMED_TARGET))


def _choices(suite: Suite) -> tuple[list[str], list[int], list[int]]:
    variants, n_ctx, head_dims = ([literal_eval(word) for word in axis] for axis in suite.params[:3])
    return variants, n_ctx, head_dims


def cases_of(suite: Suite) -> list[Case]:
    """Every case of the timed suite."""
    _, n_ctx, head_dims = _choices(suite)
    return [Case(d, True, "fp16", n) for d, n in itertools.product(head_dims, n_ctx)]
