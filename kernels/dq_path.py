"""dQ's path through the stages: from its matrix product to the instruction that writes it.

Pure text in, counts out. A path is found by following operands back from the write, so it does not
depend on names or numbering; layouts of the written value are part of it.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from dataclasses import dataclass

# Dialects and operations were renamed; the old names mean the same.
_RENAMED = {
    "triton_gpu.": "ttg.",
    "triton_nvidia_gpu.": "ttng.",
    "ttng.dot_": "ttng.warp_group_dot_",
    "ttng.warp_group_dot_async": "ttng.warp_group_dot",
    "tt.experimental_descriptor": "tt.descriptor",
}
_OP = re.compile(r"^\s*(?:(%[\w#:, %]+?)\s*=\s*)?\"?([a-z_]+\.[\w.]+)\"?(.*)$")
# Where a path ends besides the matrix product: constants, loops, and what comes from memory.
_PATH_ENDS = ("arith.constant", "scf.", "tt.load", "ttg.async", "ttng.init", "tt.make_tensor_desc")
_OPERAND = re.compile(r"%[A-Za-z0-9_]+(?:#\d+)?")
_LAYOUT_DEFINITION = re.compile(r"^(#\w+) = (#[\w.]+)<(.*)>\s*$", re.MULTILINE)

_PTX_WRITE = re.compile(
    r"(?:^|[\s{;])(?:@!?%\w+\s+)?((?:atom|red|st)\.(?:[\w.]*\.)?global[\w.:]*|cp\.reduce\.async\.bulk[\w.:]*)\s"
)
_PTX_LABEL = re.compile(r"^\s*(\$\w+):")
_PTX_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)\s*;")
_LLIR_WRITE = re.compile(
    r"((?<!\w)(?:atom|red|st)\.(?:[\w.]*\.)?global[\w.:]*|cp\.reduce\.async\.bulk[\w.:]*|atomicrmw \w+|"
    r"store [^,]*(?=, ptr addrspace\(1\))|llvm\.nvvm\.cp\.async\.bulk\.tensor\.reduce[\w.]*)"
)


@dataclass(frozen=True)
class PtxWrite:
    """One PTX instruction that writes dQ. ``loop``: number of its loop, or None outside every loop."""

    opcode: str
    loop: int | None

    @property
    def is_bulk(self) -> bool:
        return self.opcode.startswith("cp.reduce")

    @property
    def width(self) -> int:
        """Elements of 32 bits that one thread writes at once."""
        vector = re.search(r"\.v(\d+)\b", self.opcode)
        return int(vector.group(1)) if vector else 1


@dataclass(frozen=True)
class _Op:
    name: str
    operands: tuple[str, ...]
    text: str


class _Ir:
    """The operations of a TTIR or TTGIR text, in order."""

    def __init__(self, text: str) -> None:
        self.ops: list[_Op] = []
        self._definitions: dict[str, list[int]] = {}
        for line in text.splitlines():
            match = _OP.match(line)
            if match is None:
                continue
            results, name, rest = match.groups()
            for old, new in _RENAMED.items():
                name = name.replace(old, new)
            rest = rest.split(" loc(")[0]
            for result in _OPERAND.findall(results or ""):
                self._definitions.setdefault(result, []).append(len(self.ops))
            self.ops.append(_Op(name, tuple(_OPERAND.findall(rest)), rest))

    def definition(self, value: str, user: int) -> int | None:
        """Index of the operation that makes `value` for the operation at index `user`.

        MLIR prints the same name in sibling regions (two loops), so it is the nearest one before the
        user. None: an argument of a block or of the kernel.
        """
        indices = self._definitions.get(value.split("#")[0], [])
        position = bisect.bisect_left(indices, user)
        return indices[position - 1] if position else None


def count_ir_ops(text: str, name: str) -> int:
    """How often an operation stands in a TTIR or TTGIR text (name in today's dialect)."""
    return sum(op.name == name for op in _Ir(text).ops)


def _is_dq_write(op: _Op) -> bool:
    """dQ is the only float32 tile that these kernels write, and the only one that they reduce."""
    if op.name in {"tt.atomic_rmw", "ttng.async_tma_reduce", "tt.descriptor_reduce"}:
        return True
    if op.name == "tt.elementwise_inline_asm":
        return "red." in op.text
    return op.name == "tt.store" and "x!tt.ptr<f32" in op.text


def _describe_write(op: _Op, layouts: dict[str, str]) -> str:
    """The write with its memory order and the layout that it asks of dQ."""
    words = [op.name]
    if op.name == "tt.atomic_rmw":
        words += re.findall(r"\b(?:fadd|acq_rel|relaxed|acquire|release|gpu|cta|sys)\b", op.text)[:3]
    if asm := re.search(r'"(red[\w.]*)', op.text):
        words.append(asm.group(1))
    if layout := re.search(r"tensor<[^#>]*(?:>[^#>]*)?, (#\w+)>", op.text):
        words += filter(None, [layouts.get(layout.group(1))])
    return " ".join(words)


def _layouts(ttgir: str) -> dict[str, str]:
    """Alias of each register layout -> its kind and what a thread holds; the rest of it was renamed often."""
    found = {}
    for alias, kind, body in _LAYOUT_DEFINITION.findall(ttgir):
        held = re.search(r"(?:sizePerThread|instrShape) = \[[\d, ]*\]", body)
        if held:
            found[alias] = f"{kind.split('.')[-1]}({held.group(0)})"
    return found


def _ir_path(text: str) -> dict[str, int]:
    """Operations from dQ's matrix product to its write, with counts; the writes themselves described."""
    ir = _Ir(text)
    layouts = _layouts(text)
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    for index, write in enumerate(ir.ops):
        if not _is_dq_write(write):
            continue
        counts[_describe_write(write, layouts)] += 1
        pending = [(operand, index) for operand in write.operands]
        # A bulk reduction reads shared memory: go on with what is stored there.
        if write.name == "ttng.async_tma_reduce":
            pending += _stored_before(ir, index, counts)
        while pending:
            value, user = pending.pop()
            source = ir.definition(value, user)
            if source is None or source in seen:
                continue
            seen.add(source)
            op = ir.ops[source]
            # Address arithmetic is the same at every width; conversions of it are not free.
            if op.name.startswith("ttg.") or "dot" in op.name:
                counts[op.name] += 1
            if op.name.endswith("dot_wait"):
                # It hands every operand through; result n is operand n.
                pending.append((op.operands[int(value.partition("#")[2] or 0)], source))
            elif "dot" not in op.name and not op.name.startswith(_PATH_ENDS):
                pending += [(operand, source) for operand in op.operands]
    return dict(sorted(counts.items()))


def conversions_per_tile(ttgir: str) -> float:
    """Layout conversions on dQ's path for each write of a tile (a causal kernel has two: two loops)."""
    writes = sum(map(_is_dq_write, _Ir(ttgir).ops))
    return _ir_path(ttgir).get("ttg.convert_layout", 0) / writes if writes else 0


def _stored_before(ir: _Ir, reduction: int, counts: Counter[str]) -> list[tuple[str, int]]:
    """What the nearest store to a bulk reduction's shared memory writes, as (value, user)."""
    for index in range(reduction - 1, -1, -1):
        op = ir.ops[index]
        if op.name == "ttg.local_store" and op.operands[1] in ir.ops[reduction].operands:
            counts[op.name] += 1
            return [(op.operands[0], index)]
    return []


def ptx_dq_writes(ptx: str, whole_kernel_is_dq: bool) -> list[PtxWrite]:
    """dQ's writes in PTX: reductions anywhere, and plain stores inside a loop (dK, dV are stored after).

    With ``whole_kernel_is_dq`` every global store counts.
    """
    lines = ptx.splitlines()
    labels = {m.group(1): n for n, line in enumerate(lines) if (m := _PTX_LABEL.match(line))}
    loops = []
    for number, line in enumerate(lines):
        branch = _PTX_BRANCH.search(line)
        if branch and labels.get(branch.group(1), number) < number:
            loops.append((labels[branch.group(1)], number))
    writes = []
    for number, line in enumerate(lines):
        loop = next((i for i, (first, last) in enumerate(loops) if first <= number <= last), None)
        for opcode in _PTX_WRITE.findall(line.split("//")[0]):
            if whole_kernel_is_dq or loop is not None or not opcode.startswith("st."):
                writes.append(PtxWrite(opcode, loop))
    return writes


def _llir_path(llir: str) -> dict[str, int]:
    """Writes to global memory in LLVM IR, in inline assembly or not (dK's and dV's stores included)."""
    found = (re.sub(r"\s+%\S+$", "", text) for text in _LLIR_WRITE.findall(llir))
    return dict(sorted(Counter(found).items()))


def dq_path(stages: dict[str, str], whole_kernel_is_dq: bool) -> dict[str, dict[str, int]]:
    """dQ's path in ttir, ttgir, llir and ptx: {stage: {operation: how often}}."""
    ptx = Counter(write.opcode for write in ptx_dq_writes(stages["ptx"], whole_kernel_is_dq))
    return {
        "ttir": _ir_path(stages["ttir"]),
        "ttgir": _ir_path(stages["ttgir"]),
        "llir": _llir_path(stages["llir"]),
        "ptx": dict(sorted(ptx.items())),
    }
