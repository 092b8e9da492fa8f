"""A range is closed by GPU time: each commit beside the older end; equal kernels are not asked about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from builders import COMMITS, FACTS, TARGET, finding, record_document, write_object, write_record

from scripts.tracker.bisection import Answer, Outcome, close_range
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit, Confirmation, Decision, Effect, Leg, Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.request import Request
from scripts.tracker.results import BuildFailure
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timing_probe import claimed_effect, timing_probe
from scripts.tracker.workspace import Workspace

POLICY = read_policy().confirm
RANGE = list(COMMITS[:4])
FINDING = replace(
    finding(Verdict.REGRESSION, before=RANGE[0], after=RANGE[-1]), change=0.25, candidate_change=0.2
)


@dataclass
class Harness:
    """Everything is compiled, but for what ``missing`` names."""

    workspace: Workspace
    missing: set[str] = field(default_factory=set)
    target: str = TARGET

    def is_done(self, commit: str) -> bool:
        return commit not in self.missing

    def measure(self, commit: Commit, _: Any) -> BuildFailure:
        return BuildFailure("no wheel", transient=False)


@pytest.fixture
def harness(tmp_path: Path) -> Any:
    """Four commits, each with kernels of its own."""
    space = Workspace(tmp_path)
    store = space.evidence.root
    for commit in RANGE:
        for variant in [*FACTS, "support"]:
            put(store, commit, variant, f"{variant} of {commit.label}")
    return Harness(space)


def put(store: Path, commit: Commit, variant: str, identity: str) -> None:
    cubin = write_object(store, identity.encode())
    document = record_document(commit, variant, objects={"cubin": cubin})
    document["kernels"][0]["identity"] = identity
    write_record(store, document)


@dataclass
class Gpu:
    """Answers with the effect of each commit over the older end; counts how often it was asked."""

    effects: dict[str, float | None]
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Confirmation:
        self.asked.append(request.after.label)
        assert request.before == RANGE[0]
        change = self.effects[request.after.label]
        if change is None:
            decision, effect = Decision.UNKNOWN, Effect(0.01, -0.01, 0.03)
        else:
            decision = Decision.DIFFERENT if abs(change) > 0.01 else Decision.SAME
            effect = Effect(change, change - 0.005, change + 0.005)
        leg = Leg("atomic_add", 1e-3, 1.2e-3, effect, (("a",), ("b",)))
        return Confirmation(
            1, request.finding, decision, "time", "", effect, (leg,), 2, "NVIDIA H100", "1", "2026-12-01"
        )


def bisect(harness: Any, gpu: Gpu) -> Any:
    probe = timing_probe(FINDING, claimed_effect(FINDING), harness, FACTS, POLICY, gpu)
    return close_range(RANGE, probe, 12, True)


def labels(*changes: float | None) -> dict[str, float | None]:
    return dict(zip([c.label for c in RANGE], changes, strict=True))


def test_the_first_slow_commit_is_found_and_its_parent_asked_again(harness: Any) -> None:
    gpu = Gpu(labels(0.0, 0.0, 0.2, 0.2))
    found = bisect(harness, gpu)
    assert (found.outcome, found.last_old, found.first_new) == (Outcome.CULPRIT, RANGE[1], RANGE[2])
    assert gpu.asked.count(RANGE[1].label) >= 2


def test_a_newer_end_that_does_not_reproduce_has_no_culprit(harness: Any) -> None:
    gpu = Gpu(labels(0.0, 0.0, 0.0, 0.0))
    assert bisect(harness, gpu).outcome is Outcome.NOT_REPRODUCED
    assert gpu.asked == [RANGE[-1].label]  # and nothing else was spent on it


def test_a_small_change_on_the_way_and_one_the_other_way_are_not_it(harness: Any) -> None:
    found = bisect(harness, Gpu(labels(0.0, 0.03, -0.1, 0.2)))
    assert found.first_new == RANGE[3]


def test_a_commit_that_the_gpu_cannot_tell_is_skipped_and_the_range_is_honest(harness: Any) -> None:
    found = bisect(harness, Gpu(labels(0.0, None, 0.2, 0.2)))
    assert found.outcome is Outcome.RANGE
    assert found.between == (RANGE[1],)


def test_a_commit_that_cannot_be_built_is_skipped_not_blamed(harness: Any) -> None:
    harness.missing.add(RANGE[1].commit)
    found = bisect(harness, Gpu(labels(0.0, 0.0, 0.2, 0.2)))
    assert found.between == (RANGE[1],)
    assert any("no wheel" in step.probed.seen for step in found.steps)


def test_equal_kernels_are_not_timed(harness: Any) -> None:
    for variant in FACTS:
        put(harness.workspace.evidence.root, RANGE[1], variant, f"{variant} of {RANGE[0].label}")
    gpu = Gpu(labels(0.0, 0.2, 0.2, 0.2))  # would be wrong of the second commit
    probe = timing_probe(FINDING, 0.2, harness, FACTS, POLICY, gpu)
    assert probe.ask(RANGE[1], False).answer is Answer.OLD
    assert gpu.asked == []


def test_lost_kernels_are_a_reason_and_no_end(harness: Any) -> None:
    for path in EvidenceStore(harness.workspace.evidence.root).root.glob("objects/*/*"):
        path.unlink()
    probe = timing_probe(FINDING, 0.2, harness, FACTS, POLICY, Gpu({}))
    probed = probe.ask(RANGE[2], False)
    assert probed.answer is Answer.SKIPPED
    assert "its cubin is not in" in probed.seen


def test_a_finding_without_time_has_no_effect_to_look_for() -> None:
    with pytest.raises(TrackerError, match="no GPU time"):
        claimed_effect(finding(Verdict.REGRESSION))
    assert claimed_effect(replace(FINDING, verdict=Verdict.REFERENCE_MOVED)) == 0.25
    assert claimed_effect(FINDING) == 0.2
