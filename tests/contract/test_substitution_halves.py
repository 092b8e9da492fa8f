"""prove's two halves share files and a few words, no code: the words must be the same."""

from kernels import compile as compiling
from kernels import substitute
from kernels.variants import Variant
from scripts.tracker.stages import WHOLE_KERNEL_IS_DQ
from scripts.tracker.substitution import FED, Side


def test_both_feed_the_same_stages() -> None:
    assert [stage.value for stage in FED] == list(compiling.STAGES)
    assert [side.value for side in Side] == list(substitute.SIDES)


def test_both_know_which_kernel_makes_nothing_but_dq() -> None:
    specs = compiling.variant_specs(Variant.TWO_PASS, compiling.Case(64, True, "fp16"))
    assert [spec.role for spec in specs if spec.whole_kernel_is_dq] == [WHOLE_KERNEL_IS_DQ]
