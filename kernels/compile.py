"""Compile kernels without a GPU: one kernel, one fresh process, every stage.

What a process compiled before can change the code it makes next (3.3.1 gives its first kernel another
data layout), so `compile_fresh` starts a process for each kernel. The process itself is this module run
as a script: it compiles a list of kernels in order, which is how `compile_order` asks the opposite.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernels.launch_configs import BACKWARD, BACKWARD_DQ, FORWARD, HEAD_DIMS, ROWWISE, LaunchConfig
from kernels.variants import Variant

STAGES = ("ttir", "ttgir", "llir", "ptx")
TARGETS = ("cuda:80", "cuda:90", "cuda:100")
DTYPES = ("fp16", "bf16")
# A kernel takes 1 to 2 s; a compiler that hangs must not hold up the run for long.
COMPILE_TIMEOUT_S = 300

_ROOT = Path(__file__).resolve().parent.parent
# Variables by which a user's shell would change what Triton does (interpret, dump, skip a pass, another
# ptxas, ...): a result must not depend on the shell that it was made in.
_COMPILER_SETTINGS = (
    "TRITON_",
    "MLIR_",
    "LLVM_",
    "NVPTX_",
    "PTXAS_",
    "DISABLE_",
    "USE_IR_LOC",
    "USE_TTGIR_LOC",
)
# How Triton words a ptxas that a signal ended (SIGKILL: out of memory) or that is not there.
_TOOL_KILLED = re.compile(r"error code -(?:9|15|2)\b|Cannot find ptxas")
_EXIT_INFRASTRUCTURE = 70  # sysexits' EX_SOFTWARE: not the compiler's fault, try again


class InfrastructureError(RuntimeError):
    """The machine failed, not the compiler (disk full, out of memory, no Triton): nothing is recorded."""


@dataclass(frozen=True)
class Case:
    """What code is compiled for. The code does not depend on n_ctx, batch or heads."""

    head_dim: int
    causal: bool
    dtype: str

    def __post_init__(self) -> None:
        if self.head_dim not in HEAD_DIMS:
            raise ValueError(f"head_dim {self.head_dim}: choose one of {HEAD_DIMS}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r}: choose one of {DTYPES}")

    @property
    def slug(self) -> str:
        return f"hd{self.head_dim}-{'causal' if self.causal else 'full'}-{self.dtype}"


@dataclass(frozen=True)
class KernelSpec:
    """One kernel to compile. ``signature``: run-time arguments in order, name to Triton type.

    ``tile_elements``: floats in a tile of dQ. ``rows_per_program``: grid is (rows / this, Z * H).
    """

    role: str
    function: str
    signature: dict[str, str]
    constexprs: dict[str, Any]
    num_warps: int
    num_stages: int
    tile_elements: int
    rows_per_program: int
    whole_kernel_is_dq: bool = False


@dataclass(frozen=True)
class CompiledKernel:
    """Texts of `STAGES`, the cubin, `compat.launch_metadata`, and seconds by stage."""

    texts: dict[str, str]
    cubin: bytes
    launch: dict[str, Any]
    durations_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CompileFailure:
    """The compiler refused the kernel, crashed or hung."""

    message: str


def compute_capability(target: str) -> int:
    """80 for "cuda:80". Raises ValueError for a target that is not in `TARGETS`."""
    if target not in TARGETS:
        raise ValueError(f"target {target!r}: choose one of {', '.join(TARGETS)}")
    return int(target.removeprefix("cuda:"))


def _spec(
    role: str,
    function: str,
    pointers: dict[str, str],
    scalars: dict[str, str],
    constexprs: dict[str, Any],
    config: LaunchConfig,
    head_dim: int,
    rows_per_program: int,
) -> KernelSpec:
    return KernelSpec(
        role=role,
        function=function,
        signature={**{name: f"*{dtype}" for name, dtype in pointers.items()}, **scalars},
        constexprs={"HEAD_DIM": head_dim, **constexprs},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        tile_elements=config.block_m * head_dim,
        rows_per_program=rows_per_program,
        whole_kernel_is_dq=role == "backward_dq",
    )


def variant_specs(variant: Variant, case: Case) -> list[KernelSpec]:
    """The kernels of a variant: the backward, and for two_pass the one that makes dQ."""
    dtype = case.dtype
    scalars = {"sm_scale": "fp32", "N_CTX": "i32"}
    first_pass = Variant.NONE if variant is Variant.TWO_PASS else variant
    config = BACKWARD[case.head_dim]
    pointers = dict.fromkeys(("Q", "K", "V", "DO"), dtype)
    gradients = {"DQ": "fp32", "DK": dtype, "DV": dtype, "M": "fp32", "D": "fp32"}
    switches = {
        "BLOCK_M1": config.block_m,
        "BLOCK_N1": config.block_n,
        "CAUSAL": case.causal,
        "DQ_REDUCTION": first_pass.value,
    }
    specs = [
        _spec(
            "backward", "_attn_bwd", {**pointers, **gradients}, scalars, switches, config,
            case.head_dim, config.block_n,
        )
    ]  # fmt: skip
    if variant is Variant.TWO_PASS:
        config = BACKWARD_DQ[case.head_dim]
        switches = {"BLOCK_M2": config.block_m, "BLOCK_N2": config.block_n, "CAUSAL": case.causal}
        gradients = {"DQ": "fp32", "M": "fp32", "D": "fp32"}
        specs.append(
            _spec(
                "backward_dq", "_attn_bwd_dq", {**pointers, **gradients}, scalars, switches, config,
                case.head_dim, config.block_m,
            )
        )  # fmt: skip
    return specs


def support_specs(case: Case) -> list[KernelSpec]:
    """The kernels that every variant shares: forward, preprocess, dQ's conversion."""
    dtype, head_dim, rows = case.dtype, case.head_dim, ROWWISE.block_m
    forward = FORWARD[head_dim]
    return [
        _spec(
            "forward", "_attn_fwd",
            {"Q": dtype, "K": dtype, "V": dtype, "O": dtype, "M": "fp32"},
            {"sm_scale": "fp32", "N_CTX": "i32", "N_VALID": "i32"},
            {"BLOCK_M": forward.block_m, "BLOCK_N": forward.block_n, "CAUSAL": case.causal},
            forward, head_dim, forward.block_m,
        ),
        _spec(
            "preprocess", "_attn_bwd_preprocess", {"O": dtype, "DO": dtype, "D": "fp32"},
            {"N_CTX": "i32"}, {"BLOCK_M": rows}, ROWWISE, head_dim, rows,
        ),
        _spec(
            "convert_dq", "_attn_bwd_convert_dq", {"DQ_ACC": "fp32", "DQ": dtype},
            {"sm_scale": "fp32", "N_CTX": "i32"}, {"BLOCK_M": rows}, ROWWISE, head_dim, rows,
        ),
    ]  # fmt: skip


def compile_fresh(spec: KernelSpec, target: str) -> CompiledKernel | CompileFailure:
    """Compile one kernel in a process of its own. Raises InfrastructureError."""
    return compile_in_order([spec], target)[0]


def compile_in_order(specs: list[KernelSpec], target: str) -> list[CompiledKernel | CompileFailure]:
    """Compile kernels one after another in one new process with an empty Triton cache.

    If the process dies, that failure stands for every kernel that it had not finished.
    Raises InfrastructureError if the machine and not the compiler is to blame.
    """
    with tempfile.TemporaryDirectory(prefix="atomwatch-") as scratch:
        out = Path(scratch)
        (out / "plan.json").write_text(
            json.dumps({"target": target, "specs": [asdict(spec) for spec in specs]})
        )
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_COMPILER_SETTINGS)},
            "TRITON_CACHE_DIR": str(out / "triton-cache"),
            "PYTHONHASHSEED": "0",
        }
        failure = _run_child(out, environment, COMPILE_TIMEOUT_S * len(specs))
        return [_read_result(out / str(index), failure) for index in range(len(specs))]


def _run_child(out: Path, environment: dict[str, str], timeout_s: float) -> CompileFailure | None:
    """Run this module on out/plan.json. None if it finished."""
    command = [sys.executable, "-W", "ignore", "-m", "kernels.compile", str(out)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module and a folder that we made
            command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s,
            errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return CompileFailure(f"the compiler did not finish within {timeout_s:.0f} s")
    if done.returncode == 0:
        return None
    tail = "\n".join(done.stderr.strip().splitlines()[-20:])
    if done.returncode < 0 and -done.returncode not in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        # An assertion or a fault inside the compiler: its own doing, and the same the next time.
        return CompileFailure(f"the compiler died of {signal.Signals(-done.returncode).name}\n{tail}")
    reason = (
        f"was killed by {signal.Signals(-done.returncode).name} (out of memory?)"
        if done.returncode < 0
        else f"ended with exit status {done.returncode}"
    )
    raise InfrastructureError(f"a compile process {reason}: {tail or 'no message'}")


def _read_result(folder: Path, failure: CompileFailure | None) -> CompiledKernel | CompileFailure:
    launch_file = folder / "launch.json"
    if not launch_file.exists():
        if (folder / "failure.txt").exists():
            return CompileFailure((folder / "failure.txt").read_text())
        return failure or CompileFailure("the compile process ended without a result")
    result = json.loads(launch_file.read_text())
    return CompiledKernel(
        texts={stage: (folder / stage).read_text() for stage in STAGES},
        cubin=(folder / "cubin").read_bytes(),
        launch=result["launch"],
        durations_s=result["durations_s"],
    )


def _compile_here(spec: dict[str, Any], target: str, folder: Path) -> None:
    """Compile one kernel in this process and write its stages, its cubin and, last, launch.json."""
    from kernels import attention_backward, compat

    signature = spec["signature"]
    source = compat.make_source(
        getattr(attention_backward, spec["function"]),
        signature,
        spec["constexprs"],
        # As Triton itself would see them: allocations are aligned, N_CTX is a whole number of tiles.
        divisible_by_16=[n for n, kind in signature.items() if kind.startswith("*") or n == "N_CTX"],
    )
    kernel, durations_s = compat.compile_timed(
        source, compute_capability(target), spec["num_warps"], spec["num_stages"]
    )
    for stage in STAGES:
        (folder / stage).write_text(kernel.asm[stage])
    (folder / "cubin").write_bytes(kernel.asm["cubin"])
    result = {"launch": compat.launch_metadata(kernel), "durations_s": durations_s}
    (folder / "launch.json").write_text(json.dumps(result))


def _is_infrastructure(error: BaseException | None) -> bool:
    """True if anything in the chain of causes is the machine's fault: no memory, no disk, a missing or
    unreadable file, or a tool of the compiler (ptxas) that is missing or was killed."""
    while error is not None:
        if isinstance(error, (MemoryError, ImportError, OSError)) or _TOOL_KILLED.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _explain(error: BaseException | None) -> str:
    """The first cause first: Triton says what is wrong inside a helper there, and only where above it."""
    causes = []
    while error is not None:
        causes.append(f"{type(error).__name__}: {error}")
        error = error.__cause__
    return "\n".join(reversed(causes))


def _main(out: Path) -> int:
    # An environment without Triton, or a checkout with a file missing, is the machine's fault: fail before
    # any kernel.
    from kernels import attention_backward, compat  # noqa: F401

    plan = json.loads((out / "plan.json").read_text())
    for index, spec in enumerate(plan["specs"]):
        folder = out / str(index)
        folder.mkdir()
        try:
            _compile_here(spec, plan["target"], folder)
        except Exception as error:  # whatever the compiler raises is this kernel's result
            if _is_infrastructure(error):
                raise
            # The message is the whole of an MLIR or ptxas log: colours and our own folder are noise.
            message = re.sub(r"\x1b\[[0-9;]*m", "", _explain(error))
            (folder / "failure.txt").write_text(message.replace(str(out), "<out>"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(_main(Path(sys.argv[1])))
    except Exception as error:  # noqa: BLE001 - the parent turns it into an InfrastructureError
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(_EXIT_INFRASTRUCTURE)
