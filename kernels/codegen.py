"""Metrics of generated code: the texts of the stages in, numbers out. Standard library only, no I/O.

All numbers are properties of one kernel's text; none depends on the machine that compiled it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kernels.dq_path import PtxWrite, conversions_per_tile, count_ir_ops, dq_path, ptx_dq_writes

_LABEL = re.compile(r"^\.(L_x_\d+|L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?(?:\{\s*)?([A-Z][\w.]*)(.*)$")
_DATA = (".byte", ".short", ".word", ".dword", ".zero", "/*")  # what constant sections hold
_BRANCH_TARGET = re.compile(r"`\(\.(L_\w+)\)")
# Tensor-core instructions: HMMA/IMMA/DMMA (sm_80), HGMMA/IGMMA/QGMMA (sm_90), UTCHMMA/UTCQMMA (sm_100).
_MATRIX = re.compile(r"^(?:UTC)?[A-Z]{0,2}G?MMA$")


@dataclass(frozen=True)
class SmLimits:
    """Per-SM limits that decide occupancy (CUDA C++ Programming Guide, "Technical Specifications per
    Compute Capability"). Every block also takes 1 KiB of shared memory for the system since 8.0."""

    registers: int
    threads: int
    blocks: int
    shared_memory_bytes: int


SM_LIMITS = {
    80: SmLimits(65536, 2048, 32, 164 * 1024),
    90: SmLimits(65536, 2048, 32, 228 * 1024),
    100: SmLimits(65536, 2048, 32, 228 * 1024),
}
_RESERVED_SHARED_BYTES = 1024
_REGISTERS_ALLOCATED_PER_WARP = 256  # registers are handed out to a warp in units of 256

# The metrics, in the order they are shown: name -> unit. All are counts of the static code, not of
# what is executed, except registers, bytes and blocks.
METRICS: dict[str, str] = {
    "dq_writes": "instructions",
    "dq_vector_width": "elements",
    "dq_acq_rel": "instructions",
    "dq_layout_conversions": "operations per tile",
    "layout_conversions": "operations",
    "sass_dq_writes": "instructions",
    "gpu_fences": "instructions",
    "cache_invalidations": "instructions",
    "matrix_instructions": "instructions",
    "barriers": "instructions",
    "shared_memory_bytes": "bytes",
    "registers": "registers",
    "spill_stores": "instructions",
    "spill_loads": "instructions",
    "sass_instructions": "instructions",
    "main_loop_instructions": "instructions",
    "occupancy_blocks": "blocks",
}
# How two kernels of one variant (two_pass) make one number; every other metric is a sum.
_WORST_IS_LARGEST = {"registers", "shared_memory_bytes", "main_loop_instructions"}
_WORST_IS_SMALLEST = {"occupancy_blocks", "dq_vector_width"}


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction. ``opcode`` has its modifiers, ``text`` all but address and predicate."""

    address: int
    opcode: str
    text: str
    target: str | None

    @property
    def base(self) -> str:
        return self.opcode.split(".", 1)[0]


@dataclass(frozen=True)
class Sass:
    """A kernel's instructions in order, and where each label points (an index into them)."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    def loops(self) -> list[tuple[int, int]]:
        """[first, last] of every backward branch, as indices of instructions."""
        found = []
        for index, instruction in enumerate(self.instructions):
            start = self.labels.get(instruction.target or "", index + 1)
            # A branch to itself is ptxas's padding after the last exit, not a loop of the program.
            if instruction.base == "BRA" and start < index:
                found.append((start, index))
        return found

    def main_loop(self) -> tuple[Instruction, ...]:
        """The loop with most matrix instructions; of equal ones the shortest (it has no causal mask)."""
        best: tuple[Instruction, ...] = ()
        best_key = (0, 0)
        for first, last in self.loops():
            body = self.instructions[first : last + 1]
            key = (sum(is_matrix(i) for i in body), -len(body))
            if key[0] and key > best_key:
                best, best_key = body, key
        return best


def is_matrix(instruction: Instruction) -> bool:
    return bool(_MATRIX.match(instruction.base))


def parse_sass(text: str) -> Sass:
    """Read nvdisasm's text. Raises ValueError if it holds no instruction."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            address, _, opcode, rest = match.groups()
            target = _BRANCH_TARGET.search(rest)
            instructions.append(
                Instruction(int(address, 16), opcode, f"{opcode}{rest}", target.group(1) if target else None)
            )
    if not instructions:
        raise ValueError("the disassembly holds no instruction")
    return Sass(tuple(instructions), labels)


def normalise_sass(text: str) -> str:
    """SASS without what does not change execution: comments, section headers, numbers of labels.

    Labels count debug sections too, so the same code may come with other numbers. A label that a branch
    names is kept where it stands: nothing else says where the branch goes.
    """
    numbers: dict[str, str] = {}
    branched_to = set(_BRANCH_TARGET.findall(text))

    def rename(match: re.Match[str]) -> str:
        return numbers.setdefault(match.group(0), f"L{len(numbers)}")

    kept = []
    for line in text.splitlines():
        stripped = re.sub(r"//.*$", "", line).strip()
        label = _LABEL.match(line)
        if (
            (label and label.group(1) in branched_to)
            or _INSTRUCTION.match(line)
            or stripped.startswith((".byte", ".short", ".word", ".dword", ".zero", "/*"))
        ):
            kept.append(re.sub(r"\bL_\w+", rename, " ".join(stripped.split())))
    return "\n".join(kept)


def kernel_identity(sass: str, launch: dict[str, Any]) -> str:
    """sha256 of the normalised machine code and everything that a launch depends on.

    Equal identity: the GPU is asked to do exactly the same. The kernel's name is left out.
    """
    parts = {key: launch[key] for key in sorted(launch) if key != "kernel_name"}
    digest = hashlib.sha256(normalise_sass(sass).encode())
    digest.update(json.dumps(parts, sort_keys=True).encode())
    return digest.hexdigest()


def count_ptx_parameters(ptx: str) -> int:
    """Parameters of the PTX entry, hidden scratch pointers included. Raises ValueError without one."""
    entry = re.search(r"\.entry\s+\S+\s*\((.*?)\)", ptx, re.DOTALL)
    if entry is None:
        raise ValueError("the PTX holds no .entry")
    return len(re.findall(r"\.param\b", entry.group(1)))


def occupancy_blocks(
    compute_capability: int, registers: int, shared_memory_bytes: int, num_warps: int
) -> int:
    """Blocks of this kernel that fit on one SM; 0 if not even one does.

    The CUDA occupancy calculator's rule: the tightest of registers, shared memory, threads and blocks.
    """
    limits = SM_LIMITS[compute_capability]
    per_warp = -(-registers * 32 // _REGISTERS_ALLOCATED_PER_WARP) * _REGISTERS_ALLOCATED_PER_WARP
    return min(
        limits.registers // max(per_warp * num_warps, 1),
        limits.shared_memory_bytes // (shared_memory_bytes + _RESERVED_SHARED_BYTES),
        limits.threads // (num_warps * 32),
        limits.blocks,
    )


def measure(
    stages: dict[str, str],
    launch: dict[str, Any],
    compute_capability: int,
    tile_elements: int,
    whole_kernel_is_dq: bool,
) -> dict[str, Any]:
    """All that is known about one kernel's code.

    ``stages``: texts of ttir, ttgir, llir, ptx, sass. ``launch``: `compat.launch_metadata` with
    "registers". ``tile_elements``: size of a dQ tile. ``whole_kernel_is_dq``: the kernel makes nothing
    but dQ, so that every global store is dQ's. Returns {"metrics": {name: number or None},
    "dq_path": {stage: {operation: count}}, "opcodes": {opcode: count}}; None: does not apply.
    """
    sass = parse_sass(stages["sass"])
    writes = ptx_dq_writes(stages["ptx"], whole_kernel_is_dq)
    in_loops = _in_loops(sass)
    paths = dq_path(stages, whole_kernel_is_dq)
    paths["sass"] = dict(
        Counter(i.opcode for i in (sass.instructions if whole_kernel_is_dq else in_loops) if _is_write(i))
        + Counter(i.opcode for i in sass.instructions if _is_fence(i) or i.base == "CCTL")
    )
    bases = Counter(i.base for i in sass.instructions)
    metrics = {
        "dq_writes": len(writes),
        "dq_vector_width": _vector_width(writes, tile_elements),
        "dq_acq_rel": sum(".acq_rel" in write.opcode for write in writes),
        "dq_layout_conversions": conversions_per_tile(stages["ttgir"]),
        "layout_conversions": count_ir_ops(stages["ttgir"], "ttg.convert_layout"),
        "sass_dq_writes": sum(_is_write(i) for i in (sass.instructions if whole_kernel_is_dq else in_loops)),
        "gpu_fences": sum(_is_fence(i) for i in sass.instructions),
        "cache_invalidations": sum(i.opcode.startswith("CCTL.IV") for i in sass.instructions),
        "matrix_instructions": sum(is_matrix(i) for i in sass.instructions),
        "barriers": bases["BAR"],
        "shared_memory_bytes": launch["shared_memory_bytes"],
        "registers": launch["registers"],
        "spill_stores": bases["STL"],
        "spill_loads": bases["LDL"],
        "sass_instructions": len(sass.instructions),
        "main_loop_instructions": len(sass.main_loop()) or None,
        "occupancy_blocks": occupancy_blocks(
            compute_capability, launch["registers"], launch["shared_memory_bytes"], launch["num_warps"]
        ),
    }
    return {"metrics": metrics, "dq_path": paths, "opcodes": dict(sorted(bases.items()))}


def combine(kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """One number a metric for a variant of several kernels: the sum, or the worst where a sum is nonsense."""
    combined: dict[str, Any] = {}
    for name in METRICS:
        values = [kernel[name] for kernel in kernels if kernel[name] is not None]
        if not values:
            combined[name] = None
        elif name in _WORST_IS_LARGEST:
            combined[name] = max(values)
        elif name in _WORST_IS_SMALLEST:
            combined[name] = min(values)
        else:
            combined[name] = sum(values)
    return combined


def _vector_width(writes: list[PtxWrite], tile_elements: int) -> int | None:
    """Elements that the narrowest write takes at once; a bulk tensor reduction takes its share of a tile."""
    if not writes:
        return None
    bulk = [write for write in writes if write.is_bulk]
    per_loop = max(Counter(write.loop for write in bulk).values(), default=1)
    return min(tile_elements // per_loop if write.is_bulk else write.width for write in writes)


def _in_loops(sass: Sass) -> list[Instruction]:
    indices = {i for first, last in sass.loops() for i in range(first, last + 1)}
    return [sass.instructions[i] for i in sorted(indices)]


def _is_write(instruction: Instruction) -> bool:
    """A write to global memory: store, atomic, reduction, or bulk tensor reduction."""
    return instruction.base in {"STG", "RED", "REDG", "ATOM", "ATOMG", "UTMAREDG", "UTMASTG", "UBLKRED"}


def _is_fence(instruction: Instruction) -> bool:
    """A fence that other SMs see. Fences within the block (.CTA) order shared memory and are cheap."""
    return instruction.base == "MEMBAR" and instruction.opcode.endswith((".GPU", ".SYS", ".VC"))
