"""The only file that knows Triton versions apart. Oldest supported: 3.0.0.

Each difference is found by looking for the feature, not by comparing version numbers, because most
commits of Triton's main carry the number of a release that does not have their changes.
"""

from __future__ import annotations

import inspect
import time
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

# Tensor descriptors made in the kernel: experimental (with another name) before 3.4.
make_tensor_descriptor = getattr(tl, "make_tensor_descriptor", None)


def missing_feature(variant: str) -> str | None:
    """Why this Triton has no way to express the variant at all; None if it has one."""
    if variant != "descriptor_add":
        return None
    if make_tensor_descriptor is None:
        return f"triton {triton.__version__} has no tl.make_tensor_descriptor"
    descriptor_type = getattr(tl, "tensor_descriptor", None)
    if not hasattr(descriptor_type, "atomic_add"):
        return f"triton {triton.__version__} has no atomic_add on a tensor descriptor"
    return None


def make_source(
    fn: Any, signature: dict[str, str], constexprs: dict[str, Any], divisible_by_16: list[str]
) -> ASTSource:
    """An ASTSource with Triton's usual alignment hints, for any release since 3.0.

    ``signature``: argument name to type ("*fp16", "i32", "fp32"), without the constexprs.
    """
    indices = [fn.arg_names.index(name) for name in divisible_by_16]
    if "constexprs" in inspect.signature(ASTSource.__init__).parameters:  # since 3.3
        attrs: Any = {(index,): [["tt.divisibility", 16]] for index in indices}
        types = {**signature, **dict.fromkeys(constexprs, "constexpr")}
        return ASTSource(fn=fn, signature=types, constexprs=constexprs, attrs=attrs)
    if hasattr(triton.backends.compiler, "AttrsDescriptor"):  # 3.2
        attrs = triton.backends.compiler.AttrsDescriptor.from_dict(
            {
                "arg_properties": {"tt.divisibility": indices, "tt.equal_to": []},
                "cls": "AttrsDescriptor",
            }
        )
        return ASTSource(fn=fn, signature=signature, constants=constexprs, attrs=attrs)
    attrs = triton.compiler.AttrsDescriptor(divisible_by_16=tuple(indices), equal_to_1=())
    return ASTSource(fn=fn, signature=signature, constants=constexprs, attrs=attrs)


def compile_timed(
    source: ASTSource, compute_capability: int, num_warps: int, num_stages: int
) -> tuple[Any, dict[str, float]]:
    """Compile for cuda without a GPU. Returns the compiled kernel and seconds by stage.

    "frontend" is the rest: from the Python source to the first IR, and Triton's own bookkeeping.
    Triton's listener for this came late (3.4), so the backend's stage functions are wrapped instead.
    """
    target = GPUTarget("cuda", compute_capability, 32)
    backend_class = type(make_backend(target))
    add_stages = backend_class.add_stages
    durations_s: dict[str, float] = {}

    def timed(name: str, stage: Any) -> Any:
        def run(*args: Any) -> Any:
            start_s = time.perf_counter()
            try:
                return stage(*args)
            finally:
                durations_s[name] = time.perf_counter() - start_s

        return run

    def add_timed_stages(self: Any, stages: dict[str, Any], *args: Any) -> None:
        add_stages(self, stages, *args)
        for name, stage in list(stages.items()):
            stages[name] = timed(name, stage)

    backend_class.add_stages = add_timed_stages
    # Floating-point fusion is on by default up to 3.9 and announced to be off from 3.10: said here, so
    # that a new default is not taken for a change of code generation.
    options = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}
    start_s = time.perf_counter()
    try:
        kernel = triton.compile(source, target=target, options=options)
    finally:
        backend_class.add_stages = add_stages
    total_s = time.perf_counter() - start_s
    durations_s["frontend"] = max(0.0, total_s - sum(durations_s.values()))
    return kernel, durations_s


def launch_metadata(kernel: Any) -> dict[str, Any]:
    """What a launcher must know and the cubin does not say. Fields a release lacks have their old meaning.

    Scratch sizes are bytes a program (an instance of the grid); before 3.3 there was none.
    """
    metadata = kernel.metadata
    return {
        "kernel_name": metadata.name,
        "num_warps": metadata.num_warps,
        "shared_memory_bytes": metadata.shared,
        "cluster_dims": list(getattr(metadata, "cluster_dims", None) or (1, 1, 1)),
        "global_scratch_bytes": getattr(metadata, "global_scratch_size", 0) or 0,
        "global_scratch_align_bytes": getattr(metadata, "global_scratch_align", 1) or 1,
        "profile_scratch_bytes": getattr(metadata, "profile_scratch_size", 0) or 0,
        "profile_scratch_align_bytes": getattr(metadata, "profile_scratch_align", 1) or 1,
        "tensor_memory_bytes": getattr(metadata, "tmem_size", 0) or 0,
        "cooperative_grid": bool(getattr(metadata, "launch_cooperative_grid", False)),
        "programmatic_dependent_launch": bool(getattr(metadata, "launch_pdl", False)),
    }
