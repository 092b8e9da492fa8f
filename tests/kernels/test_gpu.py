"""On a Hopper GPU: the gradients of every variant at the timed shapes, compiled by this environment's Triton.

Skipped, with the reason, where there is no such GPU or no cuda.core.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest

from kernels.codegen import count_ptx_parameters
from kernels.compile import Case, CompileFailure, compile_fresh, support_specs, variant_specs
from kernels.variants import FACTS, Variant

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.core", reason="cuda.core is not installed: no GPU tests here")

from kernels.launch import Gpu, LaunchError, LoadedKernel  # noqa: E402
from kernels.plan import TimedCase  # noqa: E402
from kernels.workload import Workload  # noqa: E402


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    try:
        found = Gpu()
    except LaunchError as error:
        pytest.skip(str(error))
    if found.compute_capability != 90:
        pytest.skip(f"this GPU is cuda:{found.compute_capability}, the kernels are compiled for cuda:90")
    return found


@cache
def compiled(variant: Variant | None, head_dim: int) -> Any:
    """Entries and cubins of a variant's kernels, or the compiler's refusal. None: the support kernels."""
    case = Case(head_dim, True, "fp16")
    specs = variant_specs(variant, case) if variant else support_specs(case)
    found = []
    for spec in specs:
        kernel = compile_fresh(spec, "cuda:90")
        if isinstance(kernel, CompileFailure):
            return kernel
        parameters = count_ptx_parameters(kernel.texts["ptx"])
        launch = {
            **kernel.launch,
            "target": "cuda:90",
            "hidden_parameters": parameters - len(spec.signature),
            "rows_per_program": spec.rows_per_program,
        }
        objects = {"cubin": hashlib.sha256(kernel.cubin).hexdigest()}
        entry = {"launch": launch, "signature": list(spec.signature.items()), "objects": objects}
        found.append((entry, kernel.cubin))
    return found


def launches(gpu: Gpu, workload: Workload, kernels: Any) -> list[Any]:
    return [workload.bind(LoadedKernel.load(gpu, cubin, entry)) for entry, cubin in kernels]


@pytest.mark.parametrize("n_ctx", [2048, 8192, 32768])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("variant", list(Variant))
def test_gradients_at_the_timed_shapes(gpu: Gpu, variant: Variant, head_dim: int, n_ctx: int) -> None:
    kernels = compiled(variant, head_dim)
    if isinstance(kernels, CompileFailure):
        pytest.skip(f"this Triton has no {variant.value}: {kernels.message[-200:]}")
    workload = Workload(gpu, TimedCase(head_dim, True, "fp16", n_ctx), seed=5)
    try:
        forward, preprocess, convert_dq = launches(gpu, workload, compiled(None, head_dim))
        forward(gpu.stream)
        preprocess(gpu.stream)
        with ThreadPoolExecutor(3) as pool:
            workload.expect(pool)
        workload.poison()
        workload.zero_dq()
        for launch in [*launches(gpu, workload, kernels), convert_dq]:
            launch(gpu.stream)
        errors = workload.errors()
    finally:
        workload.close()
    assert workload.is_right(errors, FACTS[variant].exact), errors
    if not FACTS[variant].exact:
        assert errors["dq"] > 0.05  # wrong by design, and seen to be


def test_a_cubin_for_another_gpu_is_refused(gpu: Gpu) -> None:
    [(entry, cubin)] = compiled(Variant.NONE, 64)
    other = {**entry, "launch": {**entry["launch"], "target": "cuda:100"}}
    with pytest.raises(LaunchError, match="cuda:100"):
        LoadedKernel.load(gpu, cubin, other)


def test_a_damaged_cubin_is_one_clear_error(gpu: Gpu) -> None:
    [(entry, cubin)] = compiled(Variant.NONE, 64)
    with pytest.raises(LaunchError, match="not the one of its record"):
        LoadedKernel.load(gpu, cubin[:200], entry)
    nonsense = b"\x7fELF" + bytes(4096)
    whole = {**entry, "objects": {"cubin": hashlib.sha256(nonsense).hexdigest()}}
    with pytest.raises(LaunchError, match="driver refuses"):
        LoadedKernel.load(gpu, nonsense, whole)


def test_no_such_gpu() -> None:
    with pytest.raises(LaunchError, match="no "):
        Gpu("GPU-00000000-0000-0000-0000-000000000000")
