"""Which ways to accumulate dQ exist, and what is true of each. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """What a variant is for when two of them are compared."""

    CANDIDATE = "candidate"  # what Triton offers; judged against every reference
    REFERENCE = "reference"  # what a kernel author would write instead
    CONTROL = "control"  # shows the cost of the rest of the kernel; never an option for users


class Variant(str, Enum):
    """A way to sum a tile of dQ into global memory; the value is the kernel's ``DQ_REDUCTION``."""

    ATOMIC_ADD = "atomic_add"
    ATOMIC_ADD_RELAXED = "atomic_add_relaxed"
    DESCRIPTOR_ADD = "descriptor_add"
    INLINE_ASM = "inline_asm"
    INLINE_ASM_V2 = "inline_asm_v2"
    STORE = "store"
    TWO_PASS = "two_pass"
    NONE = "none"
    NONE_KEEP_DQ = "none_keep_dq"


@dataclass(frozen=True)
class VariantFacts:
    """What is true of a variant on every Triton and every GPU.

    ``exact``: dQ is right up to floating-point rounding; False where it is wrong by design.
    ``min_compute_capability``: what the instruction it asks for needs (PTX ISA, ``red``/``cp.reduce``).
    """

    role: Role
    exact: bool
    summary: str
    min_compute_capability: int = 80


FACTS: dict[Variant, VariantFacts] = {
    Variant.ATOMIC_ADD: VariantFacts(
        Role.CANDIDATE, True, "tl.atomic_add with Triton's defaults: acq_rel, gpu scope"
    ),
    Variant.ATOMIC_ADD_RELAXED: VariantFacts(Role.CANDIDATE, True, "tl.atomic_add with sem='relaxed'"),
    Variant.DESCRIPTOR_ADD: VariantFacts(
        Role.CANDIDATE,
        True,
        "tensor-descriptor atomic_add: one bulk tensor reduction a tile",
        min_compute_capability=90,
    ),
    Variant.INLINE_ASM: VariantFacts(
        Role.REFERENCE, True, "scalar red.global.add.f32 in inline assembly, in dQ's own layout"
    ),
    Variant.INLINE_ASM_V2: VariantFacts(
        Role.REFERENCE,
        True,
        "red.global.add.v2.f32 in inline assembly, on the two neighbours each thread holds",
        min_compute_capability=90,
    ),
    Variant.STORE: VariantFacts(
        Role.REFERENCE, False, "plain tl.store: racy, the last writer wins, dQ is wrong by design"
    ),
    Variant.TWO_PASS: VariantFacts(
        Role.REFERENCE, True, "no atomics: a second kernel recomputes P and makes dQ"
    ),
    Variant.NONE: VariantFacts(
        Role.CONTROL, False, "dQ is never made: its matrix product is removed as dead code too"
    ),
    Variant.NONE_KEEP_DQ: VariantFacts(
        Role.CONTROL, False, "dQ's matrix product is kept, nothing is written in the loop"
    ),
}
