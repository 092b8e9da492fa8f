"""Feed one stage's text to the later tools of this Triton: half of a proof by substitution.

    python -m kernels.substitute PLAN.json RESULTS.json

The plan names two records of the evidence store, "before" and "after", made by two Tritons. Each stage's
text of both is fed to the Triton of this environment, in a process of its own. A text that it made itself
must come out as it did then; if it does not, feeding changes the result and proves nothing.
`scripts.tracker.substitution` reads the results and decides. Not in a fingerprint: no result depends on it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernels import codegen
from kernels.compile import (
    _COMPILER_SETTINGS,
    COMPILE_TIMEOUT_S,
    STAGES,
    Case,
    KernelSpec,
    compute_capability,
    variant_specs,
)
from kernels.disassemble import disassemble
from kernels.evidence import read_object, read_record
from kernels.variants import Variant

_ROOT = Path(__file__).resolve().parent.parent
SIDES = ("before", "after")
_MLIR = ("ttir", "ttgir")
_OWN_TTGIR = "own-ttgir"
_TOOL_ERROR = re.compile(r"(?:line \d+; )?\b(?:error|fatal)\s*: .*")
_PTX_VERSION = re.compile(r"^\.version \S+", re.MULTILINE)


class Refused(Exception):
    """This Triton does not take the text; the message is its own."""


def feed_record(store: Path, record: dict[str, Any], own: dict[str, Any], stage: str) -> dict[str, Any]:
    """Feed a stage of every kernel of a record. ``own``: the record that this Triton made itself.

    Returns {"metrics": …, "identity": […]}. Raises Refused.
    """
    own_objects = {kernel["role"]: kernel["objects"] for kernel in own["kernels"]}
    specs = {spec.role: spec for spec in variant_specs(Variant(record["variant"]), Case(**record["case"]))}
    fed = [
        _feed_kernel(store, kernel, specs[kernel["role"]], stage, own_objects[kernel["role"]])
        for kernel in record["kernels"]
    ]
    return {
        "metrics": codegen.combine([kernel["metrics"] for kernel in fed]),
        "identity": [kernel["identity"] for kernel in fed],
    }


def _feed_kernel(
    store: Path, kernel: dict[str, Any], spec: KernelSpec, stage: str, own: dict[str, str]
) -> dict[str, Any]:
    earlier = STAGES[: STAGES.index(stage) + 1]
    texts = {name: read_object(store, kernel["objects"][name]).decode() for name in earlier}
    if stage == "ptx":
        # An older ptxas refuses a newer number whatever the text uses; Triton too writes what its own knows.
        [version] = _PTX_VERSION.findall(read_object(store, own["ptx"]).decode())
        texts["ptx"] = _PTX_VERSION.sub(version, texts["ptx"])
    target = kernel["launch"]["target"]
    with tempfile.TemporaryDirectory(prefix="atomwatch-") as scratch:
        folder = Path(scratch)
        (folder / stage).write_text(texts[stage])
        (folder / _OWN_TTGIR).write_bytes(read_object(store, own["ttgir"]))
        job = {"stage": stage, "target": target, "num_warps": spec.num_warps, "num_stages": spec.num_stages}
        (folder / "job.json").write_text(json.dumps(job))
        _run_child(folder)
        texts |= {name: (folder / name).read_text() for name in STAGES if name not in earlier}
        sass, registers = disassemble((folder / "cubin").read_bytes())
        made = json.loads((folder / "launch.json").read_text())
    parameters = codegen.count_ptx_parameters(texts["ptx"])
    # What the skipped stages would have said of the launch stands in the record.
    launch = {
        **kernel["launch"],
        **made,
        "registers": registers,
        "parameters": parameters,
        "hidden_parameters": parameters - len(spec.signature),
    }
    measured = codegen.measure(
        {**texts, "sass": sass},
        launch,
        compute_capability(target),
        spec.tile_elements,
        spec.whole_kernel_is_dq,
    )
    return {"metrics": measured["metrics"], "identity": codegen.kernel_identity(sass, launch)}


def _run_child(folder: Path) -> None:
    """Run the later tools in a fresh process: what a process compiled before can change its next kernel."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(_COMPILER_SETTINGS)},
        "TRITON_CACHE_DIR": str(folder / "triton-cache"),
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, "-W", "ignore", "-m", "kernels.substitute", "--feed", str(folder)]
    try:
        done = subprocess.run(  # noqa: S603 - our own module and a folder that we made
            command, cwd=_ROOT, env=environment, capture_output=True, text=True, errors="replace",
            timeout=COMPILE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Refused(f"its tools did not finish within {COMPILE_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise Refused(_reason(done.returncode, done.stderr))


def _reason(status: int, stderr: str) -> str:
    """The first error that a tool prints (MLIR and ptxas name it so), else the last line; without paths."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", stderr).splitlines() if line.strip()]
    lines = [line for line in lines if "Internal Triton PTX codegen error" not in line]  # says nothing
    errors = [match.group(0) for line in lines if (match := _TOOL_ERROR.search(line))]
    said = (errors or lines[-1:] or ["no message"])[0][:300]
    return f"died of {signal.Signals(-status).name}: {said}" if status < 0 else said


def _feed_here(folder: Path) -> None:
    """In the child: parse the text, run the stages after it, write their texts, the cubin and the launch."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    from kernels import compat

    job = json.loads((folder / "job.json").read_text())
    target = GPUTarget("cuda", compute_capability(job["target"]), 32)
    backend = make_backend(target)
    # The same options as `compat.compile_timed`.
    options = backend.parse_options(
        {"num_warps": job["num_warps"], "num_stages": job["num_stages"], "enable_fp_fusion": True}
    )
    stages = _stages_of(backend, options)
    metadata: dict[str, Any] = {"target": target, **options.__dict__}
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)

    def parse(name: str) -> Any:
        module = ir.parse_mlir_module(str(folder / name), context)
        module.context = context
        return module

    if job["stage"] == "llir":
        # What makes LLVM IR also sets up LLVM for the whole process (its targets, the width of pointers).
        stages["llir"](parse(_OWN_TTGIR), dict(metadata))
    module = parse(job["stage"]) if job["stage"] in _MLIR else (folder / job["stage"]).read_text()
    names = list(stages)
    for name in names[names.index(job["stage"]) + 1 :]:
        module = stages[name](module, metadata)
        content = module if isinstance(module, bytes) else str(module).encode()
        (folder / name).write_bytes(content)
    launch = {}
    if "shared" in metadata:  # the stage that lays out shared memory was run
        launch = compat.launch_metadata(SimpleNamespace(metadata=SimpleNamespace(**metadata)))
    (folder / "launch.json").write_text(json.dumps(launch))


def _stages_of(backend: Any, options: Any) -> dict[str, Any]:
    """The backend's stage functions by name, in order."""
    stages: dict[str, Any] = {}
    if "language" in inspect.signature(backend.add_stages).parameters:  # since 3.4
        from triton.backends.compiler import Language

        backend.add_stages(stages, options, Language.TRITON)
    else:
        backend.add_stages(stages, options)
    return stages


def run_plan(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All trials of a plan: {"text_of", "stage", "metrics", "identity"}, or "refused" with the reason.

    The plan: {"store": folder, "records": {"before": file, "after": file}, "tools": which of them is ours}.
    """
    store = Path(plan["store"])
    records = {side: read_record(Path(plan["records"][side])) for side in SIDES}
    own = records[plan["tools"]]
    trials = []
    for side in SIDES:
        for stage in STAGES:
            trial: dict[str, Any] = {"text_of": side, "stage": stage}
            try:
                trials.append(trial | feed_record(store, records[side], own, stage))
            except Refused as refusal:
                trials.append(trial | {"refused": str(refusal)})
    return trials


if __name__ == "__main__":
    if sys.argv[1] == "--feed":
        _feed_here(Path(sys.argv[2]))
    else:
        results = run_plan(json.loads(Path(sys.argv[1]).read_text()))
        Path(sys.argv[2]).write_text(json.dumps(results))
