"""Compile variants and put the evidence into the store; also a command:

    python -m kernels.record --commit LABEL --target cuda:90 --out STORE [--variant NAME] [--head-dim 64] …

in any environment that has a Triton. `benchmarks/codegen.py` does the same for a commit under asv.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels import codegen
from kernels.compile import (
    DTYPES,
    TARGETS,
    Case,
    CompiledKernel,
    CompileFailure,
    KernelSpec,
    compile_fresh,
    compute_capability,
    support_specs,
    variant_specs,
)
from kernels.disassemble import VERSION, disassemble
from kernels.evidence import SCHEMA, EvidenceWriter
from kernels.fingerprint import fingerprint
from kernels.launch_configs import HEAD_DIMS
from kernels.variants import FACTS, Variant

# The kernels that all variants share are recorded under this name beside the variants.
SUPPORT = "support"


def record_all(
    writer: EvidenceWriter, commit: str, target: str, cases: list[Case], variants: list[Variant]
) -> Iterator[dict[str, Any]]:
    """A record for each case and variant (and `SUPPORT`), made only where the store has no current one.

    Compiles in as many processes as there are CPUs. Raises InfrastructureError (see `compile`), OSError.
    """
    names = [*(variant.value for variant in variants), SUPPORT]
    jobs = [(case, name) for case in cases for name in names]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = [pool.submit(record_one, writer, commit, target, case, name) for case, name in jobs]
        try:
            for future in futures:
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def record_one(writer: EvidenceWriter, commit: str, target: str, case: Case, name: str) -> dict[str, Any]:
    """The current record of one variant (or `SUPPORT`) from the store, or a new one.

    ``status`` is "ok", "unsupported" (this Triton or this target has no such operation) or "failed" (the
    compiler refused, crashed or hung), the last two with ``message``.
    """
    path = writer.record_path(target, commit, case.slug, name)
    record = writer.load_current(path, fingerprint())
    if record is None:
        record = _make_record(writer, commit, target, case, name)
        writer.put_record(path, record)
    return record


def _make_record(writer: EvidenceWriter, commit: str, target: str, case: Case, name: str) -> dict[str, Any]:
    import triton

    record: dict[str, Any] = {
        "schema": SCHEMA,
        "commit": commit,
        "triton_version": triton.__version__,
        "fingerprint": fingerprint(),
        "disassembler": VERSION,
        "target": target,
        "case": asdict(case),
        "variant": name,
        "role": SUPPORT,
        "exact": True,
        "status": "ok",
        "message": None,
        "kernels": [],
        "metrics": None,
    }
    if name == SUPPORT:
        specs = support_specs(case)
    else:
        variant = Variant(name)
        facts = FACTS[variant]
        record |= {"role": facts.role.value, "exact": facts.exact}
        if reason := _unsupported(variant, target):
            return record | {"status": "unsupported", "message": reason}
        specs = variant_specs(variant, case)
    for spec in specs:
        compiled = compile_fresh(spec, target)
        if isinstance(compiled, CompileFailure):
            return record | {"status": "failed", "message": compiled.message, "kernels": []}
        record["kernels"].append(_kernel_entry(writer, spec, compiled, target))
    if name != SUPPORT:
        record["metrics"] = codegen.combine([kernel["metrics"] for kernel in record["kernels"]])
        record["metrics"]["compile_duration_s"] = sum(
            sum(kernel["durations_s"].values()) for kernel in record["kernels"]
        )
    return record


def _unsupported(variant: Variant, target: str) -> str | None:
    from kernels import compat

    needed = FACTS[variant].min_compute_capability
    if compute_capability(target) < needed:
        return f"its instruction needs cuda:{needed}, the target is {target}"
    return compat.missing_feature(variant.value)


def _kernel_entry(
    writer: EvidenceWriter, spec: KernelSpec, compiled: CompiledKernel, target: str
) -> dict[str, Any]:
    sass, registers = disassemble(compiled.cubin)
    parameters = codegen.count_ptx_parameters(compiled.texts["ptx"])
    launch = {
        **compiled.launch,
        "target": target,
        "registers": registers,
        "parameters": parameters,
        "hidden_parameters": parameters - len(spec.signature),
        "rows_per_program": spec.rows_per_program,
    }
    stages = {**compiled.texts, "sass": sass}
    measured = codegen.measure(
        stages, launch, compute_capability(target), spec.tile_elements, spec.whole_kernel_is_dq
    )
    return {
        "role": spec.role,
        "identity": codegen.kernel_identity(sass, launch),
        # A list: the order is the kernel's, and JSON objects are written with sorted keys.
        "signature": list(spec.signature.items()),
        "constexprs": spec.constexprs,
        "launch": launch,
        "durations_s": compiled.durations_s,
        "objects": {
            "cubin": writer.put_object(compiled.cubin),
            **{stage: writer.put_object(text.encode()) for stage, text in stages.items()},
        },
        **measured,
    }


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.record", description=__doc__)
    parser.add_argument("--commit", required=True, help="name of the records: a commit or any word")
    parser.add_argument("--out", type=Path, required=True, help="folder of the evidence store")
    parser.add_argument("--target", choices=TARGETS, default="cuda:90")
    parser.add_argument("--variant", action="append", choices=[v.value for v in Variant])
    parser.add_argument("--head-dim", type=int, choices=HEAD_DIMS, default=HEAD_DIMS[0])
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    parser.add_argument("--full", action="store_true", help="no causal mask")
    options = parser.parse_args()
    case = Case(options.head_dim, not options.full, options.dtype)
    variants = [Variant(name) for name in options.variant or list(Variant)]
    writer = EvidenceWriter(options.out)
    for record in record_all(writer, options.commit, options.target, [case], variants):
        path = writer.record_path(options.target, options.commit, case.slug, record["variant"])
        print(f"{record['variant']:20} {record['status']:12} {record['message'] or path}".split("\n")[0])
        if record["metrics"]:
            print(" " * 20, *(f"{k}={v}" for k, v in record["metrics"].items() if k != "compile_duration_s"))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
