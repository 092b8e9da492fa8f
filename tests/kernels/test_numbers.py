"""The gradients are right, without a GPU: the kernels under Triton's interpreter against float64."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kernels.launch_configs import BACKWARD
from kernels.reference import (
    RELATIVE_TOLERANCE,
    Gradients,
    attention_gradients,
    pad_rows,
    relative_error,
)
from kernels.variants import FACTS, Variant

ROOT = Path(__file__).resolve().parents[2]
INLINE_ASSEMBLY = (Variant.INLINE_ASM, Variant.INLINE_ASM_V2)
EXACT = [v for v in Variant if FACTS[v].exact and v not in INLINE_ASSEMBLY]
INEXACT = [v for v in Variant if not FACTS[v].exact]


@dataclass(frozen=True)
class Problem:
    batch: int
    heads: int
    n_ctx: int
    head_dim: int
    causal: bool
    dtype: str

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        return f"{self.batch}x{self.heads}x{self.n_ctx}x{self.head_dim}-{mask}-{self.dtype}"

    def inputs(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(self.n_ctx)
        shape = (self.batch, self.heads, self.n_ctx, self.head_dim)
        drawn = {name: random.standard_normal(shape).astype(np.float32) for name in ("q", "k", "v", "do")}
        # Numbers that the input dtype holds exactly, so that both sides start from the same.
        if self.dtype == "fp16":
            return {name: x.astype(np.float16).astype(np.float32) for name, x in drawn.items()}
        return {name: (x.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, x in drawn.items()}


@cache
def expected_gradients(problem: Problem) -> Gradients:
    return attention_gradients(**problem.inputs(), causal=problem.causal)


# One block of K (up to 128 rows) or several; whole tiles or not; more than one batch and head.
PROBLEMS = [
    Problem(2, 2, 77, 64, True, "fp16"),
    Problem(1, 2, 128, 64, False, "bf16"),
    Problem(1, 2, 256, 64, True, "fp16"),
    Problem(1, 1, 256, 64, False, "fp16"),
    Problem(2, 1, 200, 64, True, "bf16"),
    Problem(1, 1, 200, 64, False, "fp16"),
    Problem(1, 2, 130, 128, True, "fp16"),
    Problem(1, 1, 300, 128, False, "bf16"),
]


@dataclass(frozen=True)
class Solved:
    problem: Problem
    expected: Gradients
    actual: dict[str, np.ndarray]

    @property
    def tolerance(self) -> float:
        return RELATIVE_TOLERANCE[self.problem.dtype]

    def error(self, variant: Variant, gradient: str, rows: slice = slice(None)) -> float:
        actual = self.actual[f"{variant.value}.{gradient}"][:, :, rows]
        return relative_error(actual, getattr(self.expected, gradient)[:, :, rows])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Problem, dict[str, np.ndarray]]:
    """Every problem in a process of its own, because TRITON_INTERPRET must not reach the other tests."""
    folder = tmp_path_factory.mktemp("interpreted")
    # Two processes at a time: one thread of linear algebra each is fastest.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}

    def run(problem: Problem) -> dict[str, np.ndarray]:
        source, target = folder / f"{problem}.in.npz", folder / f"{problem}.out.npz"
        np.savez(source, **problem.inputs(), dtype=problem.dtype, causal=problem.causal)
        command = [sys.executable, Path(__file__).with_name("interpreted.py"), source, target]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        with np.load(target) as file:
            return dict(file)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip(PROBLEMS, pool.map(run, PROBLEMS), strict=True))


@pytest.fixture(params=PROBLEMS, ids=str)
def solved(request: pytest.FixtureRequest, results: dict[Problem, dict[str, np.ndarray]]) -> Solved:
    problem: Problem = request.param
    return Solved(problem, expected_gradients(problem), results[problem])


def test_forward_gives_the_output_and_the_log_sum_exp(solved: Solved) -> None:
    assert relative_error(solved.actual["o"], solved.expected.o) <= solved.tolerance
    n = solved.problem.n_ctx
    m = solved.actual["m"]
    # float32 throughout, whatever the input dtype: the order of the sum is the only difference.
    np.testing.assert_allclose(m[:, :, :n], solved.expected.lse / np.log(2), atol=1e-5)
    assert m.shape[2] == pad_rows(solved.expected.o).shape[2]
    assert np.isposinf(m[:, :, n:]).all()


@pytest.mark.parametrize("variant", EXACT, ids=lambda v: v.value)
def test_exact_variants_give_all_three_gradients(solved: Solved, variant: Variant) -> None:
    if missing := solved.actual.get(f"{variant.value}.missing"):
        pytest.skip(str(missing))
    for gradient in ("dq", "dk", "dv"):
        assert solved.error(variant, gradient) <= solved.tolerance, gradient


@pytest.mark.parametrize("variant", INEXACT, ids=lambda v: v.value)
def test_variants_that_are_wrong_by_design_spoil_nothing_but_dq(solved: Solved, variant: Variant) -> None:
    for gradient in ("dk", "dv"):
        assert solved.error(variant, gradient) <= solved.tolerance, gradient


def test_store_is_right_exactly_where_one_block_writes(solved: Solved) -> None:
    n, block = solved.problem.n_ctx, BACKWARD[solved.problem.head_dim].block_n
    # Behind a causal mask, the first block of Q rows sees the first block of K rows only.
    unraced = min(n, block) if solved.problem.causal or n <= block else 0
    if unraced:
        assert solved.error(Variant.STORE, "dq", slice(unraced)) <= solved.tolerance
    if unraced < n:
        assert solved.error(Variant.STORE, "dq", slice(unraced, None)) > 10 * solved.tolerance


def test_the_controls_make_no_usable_dq(solved: Solved) -> None:
    assert (solved.actual["none.dq"] == 0).all()
    block_m = BACKWARD[solved.problem.head_dim].block_m
    kept = solved.actual["none_keep_dq.dq"]
    # All products end in the first tile; a second one is never written.
    assert (kept[:, :, block_m:] == 0).all()
    assert (kept[:, :, :block_m] != 0).any()
    assert solved.error(Variant.NONE_KEEP_DQ, "dq") > 10 * solved.tolerance


@pytest.mark.parametrize("variant", INLINE_ASSEMBLY, ids=lambda v: v.value)
def test_inline_assembly_needs_a_gpu(solved: Solved, variant: Variant) -> None:
    """The interpreter refuses it: if this fails one day, move the variant to the exact ones above."""
    assert "inline_asm not supported" in str(solved.actual[f"{variant.value}.refused"])
