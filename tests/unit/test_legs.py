"""Whose doing a change is: which leg moved, and against what that is known."""

from __future__ import annotations

import pytest

from scripts.tracker.legs import Change, Legs, Source, is_the_machine, verdict_of
from scripts.tracker.model import Verdict


def change(source: Source) -> Change:
    return Change(0, "atomic_add", "store", 39, 40, (10, 40), (40, 70), source)


def legs(
    candidate: float,
    reference: float = 0.0,
    controls: tuple[float, ...] = (0.0,),
    canaries: float | None = 0.0,
    witnesses: float | None = 0.0,
    same_candidate: bool = False,
    same_reference: bool = False,
) -> Legs:
    return Legs(candidate, reference, controls, canaries, witnesses, same_candidate, same_reference)


@pytest.mark.parametrize(
    ("source", "moved", "expected"),
    [
        (Source.RATIO, legs(0.1), Verdict.REGRESSION),
        (Source.RATIO, legs(-0.1), Verdict.IMPROVEMENT),
        (Source.RATIO, legs(0.0, -0.1), Verdict.REFERENCE_MOVED),
        (Source.RATIO, legs(0.0, 0.1), Verdict.REFERENCE_MOVED),
        (Source.RATIO, legs(0.1, 0.3), Verdict.REFERENCE_MOVED),  # the same way, and farther
        (Source.RATIO, legs(0.1, controls=(0.09, 0.08)), Verdict.COMPILER_WIDE),
        (Source.RATIO, legs(0.1, controls=(0.09, 0.01)), Verdict.REGRESSION),
        # The canaries take the machine out of both legs.
        (Source.RATIO, legs(0.1, 0.0, canaries=0.1), Verdict.REFERENCE_MOVED),
        # Without canaries the other variants do, and the controls among them tell nothing more.
        (Source.RATIO, legs(0.2, 0.1, (0.1,), None, 0.1), Verdict.REGRESSION),
        (Source.RATIO, legs(0.1, 0.2, (0.1,), None, 0.1), Verdict.REFERENCE_MOVED),
        (Source.RATIO, legs(0.1, 0.0, (), None, None), Verdict.REGRESSION),
        # A kernel that is the same cannot have moved, whatever the figures say.
        (Source.RATIO, legs(0.1, same_candidate=True), Verdict.ENVIRONMENT),
        (Source.RATIO, legs(0.0, -0.1, same_candidate=True), Verdict.REFERENCE_MOVED),
        (Source.RATIO, legs(0.0, -0.1, same_reference=True), Verdict.ENVIRONMENT),
        (Source.RATIO, legs(0.1, same_candidate=True, same_reference=True), Verdict.ENVIRONMENT),
        (Source.RATIO, legs(0.1, same_reference=True), Verdict.REGRESSION),
        # A small change where the machine moved far is its shadow.
        (Source.RATIO, legs(0.12, 0.1, (0.1,), canaries=0.1), Verdict.ENVIRONMENT),
        (Source.OWN, legs(0.1, 0.1, (0.1,)), Verdict.COMPILER_WIDE),
        (Source.OWN, legs(0.1, 0.1, (0.0,)), Verdict.REGRESSION),
        (Source.OWN, legs(-0.1, -0.1, (0.0,)), Verdict.IMPROVEMENT),
        (Source.OWN, legs(0.0, 0.0, (0.0,), canaries=-0.1), Verdict.ENVIRONMENT),
        (Source.OWN, legs(0.1, 0.1, (0.1,), None, 0.1), Verdict.PENDING),
        (Source.OWN, legs(0.1, 0.1, (0.0,), None, 0.05), Verdict.REGRESSION),
        (Source.OWN, legs(0.1, 0.1, (), None, 0.1), Verdict.PENDING),
        (Source.OWN, legs(0.1, 0.1, (0.1,), None, 0.1, same_candidate=True), Verdict.ENVIRONMENT),
        (Source.MACHINE, legs(0.1, 0.1, (0.1,), canaries=0.1), Verdict.ENVIRONMENT),
    ],
)
def test_who_moved(source: Source, moved: Legs, expected: Verdict) -> None:
    verdict, why = verdict_of(moved, change(source))
    assert verdict is expected
    assert why.endswith(".")


def test_a_large_change_is_no_shadow_of_a_small_machine() -> None:
    assert not is_the_machine(legs(0.1, canaries=0.03), 0.1)
    assert is_the_machine(legs(0.01, canaries=0.03), 0.01)
