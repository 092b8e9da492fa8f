"""How often the order of compilation matters, for the Triton of this environment.

    python -m kernels.compile_order

compiles every variant in a fresh process, then all of them in one process in two orders, and prints as
JSON which came out with other machine code. Release 3.3.1 gives the first kernel of a process another data
layout, which is why the suite compiles each kernel in a process of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kernels import codegen
from kernels.compile import Case, CompiledKernel, CompileFailure, KernelSpec, compile_in_order, variant_specs
from kernels.disassemble import disassemble
from kernels.variants import Variant


def identity(compiled: CompiledKernel | CompileFailure) -> str:
    """Kernel identity, or "failed": a kernel that compiles in one order only differs too."""
    if isinstance(compiled, CompileFailure):
        return "failed"
    sass, registers = disassemble(compiled.cubin)
    return codegen.kernel_identity(sass, {**compiled.launch, "registers": registers})


def measure_order(specs: dict[str, KernelSpec], target: str) -> dict[str, Any]:
    """{"orders": how many, "kernels": how many, "differ": {kernel: [orders in which it differs]}}."""
    names = list(specs)
    fresh = {name: identity(compile_in_order([spec], target)[0]) for name, spec in specs.items()}
    differ: dict[str, list[str]] = {}
    orders = {"forward": names, "reverse": names[::-1]}
    for order, sequence in orders.items():
        together = compile_in_order([specs[name] for name in sequence], target)
        for name, compiled in zip(sequence, together, strict=True):
            if identity(compiled) != fresh[name]:
                differ.setdefault(name, []).append(order)
    return {"orders": len(orders), "kernels": len(names), "differ": differ}


def _main() -> int:
    import triton

    case = Case(head_dim=64, causal=True, dtype="fp16")
    # two_pass's first kernel is that of `none`.
    specs = {v.value: variant_specs(v, case)[0] for v in Variant if v is not Variant.TWO_PASS}
    print(json.dumps({"triton": triton.__version__, **measure_order(specs, "cuda:90")}))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
