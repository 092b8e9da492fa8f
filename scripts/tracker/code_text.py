"""LLVM IR, PTX and SASS in a canonical spelling, and dQ's path through them. Pure: text in, lines out.

Names of values, registers and labels, addresses, debug information, metadata, attributes and operand-cache
hints are no difference. What is left is what the GPU is asked to do.
"""

from __future__ import annotations

import re
from functools import cache

from scripts.tracker.model import Stage

_NUMBER = r"%(?:[\w.$-]+|\"[^\"]*\")"
# Facts about values that LLVM learned to print, one release after the other; none is an instruction.
_LLVM_FACTS = re.compile(
    r"\b(?:nonnull|noundef|nuw|nsw|nneg|samesign|disjoint|captures\(none\)|range\([^)]*\)|"
    r"dereferenceable\(\d+\)|readonly|writeonly|nocapture|local_unnamed_addr|ptx_kernel|exact) "
)
_LLVM_DROPPED = (
    ";",
    "source_filename",
    "target ",
    "attributes #",
    "!",
    "declare ",
    "#dbg",
    "tail call void @llvm.dbg",
)
# Metadata, attribute groups and comments at the end of a line; a semicolon in inline assembly is none.
_LLVM_TAIL = re.compile(r", ![\w.]+ ![\w.]+| #\d+(?=,|$|(?: \{)?$)|(?<=:) +; preds = .*$", re.MULTILINE)
_PTX_DROPPED = (
    ".loc",
    ".file",
    ".section",
    ".version",
    ".target",
    ".address_size",
    ".reg",
    ".b8",
    ".b32",
    ".b64",
)
_PTX_REGISTER = re.compile(r"%(?:rs|rd|rq|r|fd|f|p|h|hh)\d+\b")
_PTX_LABEL_NAME = re.compile(r"\$L\w+")
_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?P<text>[^/]*?)\s*;?\s*(?:/\*.*)?$")
_SASS_REGISTER = re.compile(r"\b(?:UR|UP|R|P|B)\d+\b")
_SASS_LABEL_NAME = re.compile(r"\bL_\w+")
_SASS_DATA = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/\s+)?(\.(?:byte|short|word|dword|zero)\b.*)$")

# What dQ's path is made of after TTGIR, by the names that `_name` gives.
_KIND = re.compile(
    r"(?P<reduction>(?:atom|red)\.(?:[\w:]+\.)*?global|cp\.reduce\.async\.bulk|atomicrmw|"
    r"llvm\.nvvm\.cp\.async\.bulk\.tensor\.reduce|(?:REDG?|ATOMG?|UTMAREDG|UBLKRED)\b)|"
    r"(?P<store>st\.(?:[\w:]+\.)*?global|global store|(?:STG|UTMASTG)\b)|"
    # Memory order and cache control.
    r"(?P<order>fence\.(?:acq_rel|sc)|membar|fence |llvm\.nvvm\.membar|MEMBAR\.\w+\.(?:GPU|SYS|VC)|CCTL\.IV|"
    r"(?:CGA)?ERRBAR)|"
    r"(?P<bulk_wait>(?:llvm\.nvvm\.)?cp\.async\.bulk\.(?:wait|commit)[._]group)|"
    # The layout conversion that feeds the write: through shared memory, with barriers, or between lanes.
    r"(?P<conversion>barrier|shared (?:load|store)|(?:llvm\.nvvm\.)?(?:stmatrix|ldmatrix|shfl)|"
    r"(?:STS|LDS|LDSM|STSM|SHFL|BAR)\b)|"
    r"(?P<matrix>(?:llvm\.nvvm\.)?(?:wgmma|mma\.)|(?:[A-Z]*MMA|WARPGROUP)\b)"
)
_ASM_OPCODE = re.compile(
    r"(?<![\w.])(?:atom|red|st|ld|cp\.reduce|cp\.async\.bulk|fence|membar|bar|barrier|stmatrix|ldmatrix|shfl|wgmma|mma)"
    r"\.[\w.:]+"
)
_LLVM_ASM = re.compile(r'asm (?:sideeffect )?"((?:[^"\\]|\\.)*)"')
_LLVM_MEMORY = re.compile(
    r"\b(load|store) (?:volatile )?(?:<(\d+) x )?(float|half|bfloat|double|i\d+|ptr)\b.*addrspace\((\d)\)"
)
_LLVM_BITS = {"float": 32, "half": 16, "bfloat": 16, "double": 64, "ptr": 64}
_LLVM_CALLED = re.compile(r"@(llvm\.[\w.]+)")
_LLVM_ORDERED = re.compile(r"atomicrmw \w+|fence [\w() \"-]+")
_PTX_SHARED = re.compile(r"(ld|st)\.shared(?:\.v(\d))?\.[bfsu](\d+)")
_LABEL = {
    Stage.LLIR: re.compile(r"^([\w.$-]+|\"[^\"]*\"):"),
    Stage.PTX: re.compile(r"^(\$\w+):"),
    Stage.SASS: re.compile(r"^\.(L_\w+):"),
}
_BRANCH = {
    Stage.LLIR: re.compile(r"label %([\w.$-]+|\"[^\"]*\")"),
    Stage.PTX: re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)"),
    Stage.SASS: re.compile(r"\bBRA.*\(\.(L_\w+)\)"),
}
# A word without which a line is no branch.
_BRANCH_WORD = {Stage.LLIR: "label %", Stage.PTX: "bra", Stage.SASS: "BRA"}
_NAMES = {
    Stage.LLIR: re.compile(rf"{_NUMBER}|^(?:[\w.$-]+)(?=:)"),
    Stage.PTX: re.compile(rf"{_PTX_REGISTER.pattern}|{_PTX_LABEL_NAME.pattern}"),
    Stage.SASS: re.compile(rf"{_SASS_REGISTER.pattern}|{_SASS_LABEL_NAME.pattern}"),
}


def plain_code(stage: Stage, text: str) -> list[str]:
    """The instructions and labels of a text, without debug information, metadata and addresses."""
    if stage is Stage.LLIR:
        lines = _plain_llir(text)
    else:
        clean = _plain_ptx if stage is Stage.PTX else _plain_sass
        lines = [line for raw in text.splitlines() if (line := clean(raw))]
    targets = {name for line in lines for name in _targets(stage, line)}
    # A label that no branch names is debug information, or padding's.
    return [line for line in lines if not line.endswith(":") or _label(stage, line) in targets]


def _label(stage: Stage, line: str) -> str | None:
    match = _LABEL[stage].match(line) if line.endswith(":") else None
    return match.group(1) if match else None


def _targets(stage: Stage, line: str) -> list[str]:
    return _BRANCH[stage].findall(line) if _BRANCH_WORD[stage] in line else []


def _plain_llir(text: str) -> list[str]:
    # Metadata is half of the text and stands at its end.
    code = text.partition("\n!")[0]
    lines = (line.strip() for line in _LLVM_TAIL.sub("", code).splitlines())
    return [line for line in lines if line and not line.startswith(_LLVM_DROPPED)]


def _plain_ptx(raw: str) -> str:
    line = " ".join(raw.partition("//")[0].split())
    if line.startswith((*_PTX_DROPPED, "$L__tmp", "$L__func", "$L__info")) or line in {"{", "}", ""}:
        return ""
    return re.sub(r"\.ptr \.global \.align \d+ |::cta\b", "", line)


def _plain_sass(raw: str) -> str:
    label = _LABEL[Stage.SASS].match(raw)
    if label:
        return label.group(0)
    data = _SASS_DATA.match(raw)
    if data:
        return " ".join(data.group(1).split())
    match = _SASS_LINE.match(raw)
    if match is None:
        return ""
    line = " ".join(match["text"].split()).replace(".reuse", "")
    # A predicate that is never true: padding of the memory queue.
    return "" if line.startswith("@!PT ") else line


def same_but_for_names(stage: Stage, before: list[str], after: list[str]) -> bool:
    """Whether two kernels are the same once values, registers and labels are numbered as they come."""
    # Nearly all that differ have another length: numbering takes as long as all the rest.
    return len(before) == len(after) and _renumbered(stage, before) == _renumbered(stage, after)


def _renumbered(stage: Stage, lines: list[str]) -> list[str]:
    names = _NAMES[stage]
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match.group(0).lstrip("%"), f"%{len(numbers)}")

    if stage is Stage.LLIR:
        lines = [_LLVM_FACTS.sub("", line) for line in lines]
    return [names.sub(number, line) for line in lines]


def code_path(stage: Stage, lines: list[str], whole_kernel_is_dq: bool) -> list[str]:
    """dQ's path in order, by the names of its instructions; see `code_path_places`."""
    return list(code_path_places(stage, lines, whole_kernel_is_dq).values())


def code_path_places(stage: Stage, lines: list[str], whole_kernel_is_dq: bool) -> dict[int, str]:
    """dQ's path as {line: name of its instruction}, in order: what writes dQ, the fences and cache control
    for it, and what stands between the matrix product and the write (the layout conversion through shared
    memory).

    dQ is written in a loop, dK and dV after it; with ``whole_kernel_is_dq`` every write is dQ's.
    """
    names = {n: name for n, line in enumerate(lines) if (name := _name(stage, line))}
    kinds = {n: kind for n, name in names.items() if (kind := _kind(name))}
    written = _dq_writes(kinds, _loops(stage, lines), whole_kernel_is_dq)
    path: list[int] = []
    since_product: list[int] | None = None
    for number, kind in kinds.items():
        if kind == "matrix":
            since_product = []
        elif kind == "bulk_wait" and since_product is None:
            continue  # a descriptor is made with them too, before the loop
        elif kind in {"order", "bulk_wait"} or number in written:
            path += [*(since_product or ()), number]
            since_product = None if since_product is None else []
        elif kind == "conversion" and since_product is not None:
            since_product.append(number)
    return {number: names[number] for number in path}


@cache
def _kind(name: str) -> str | None:
    match = _KIND.match(name)
    return match.lastgroup if match else None


def _dq_writes(kinds: dict[int, str], loops: list[range], whole_kernel_is_dq: bool) -> set[int]:
    """Places of dQ's writes: those in loops; without any, reductions wherever they stand."""
    reductions = {number for number, kind in kinds.items() if kind == "reduction"}
    both = reductions | {number for number, kind in kinds.items() if kind == "store"}
    if whole_kernel_is_dq:
        return both
    return {number for number in both if any(number in loop for loop in loops)} or reductions


def _loops(stage: Stage, lines: list[str]) -> list[range]:
    """From each label to a branch back to it."""
    places = {label: n for n, line in enumerate(lines) if (label := _label(stage, line))}
    found = []
    for number, line in enumerate(lines):
        for target in _targets(stage, line):
            start = places.get(target, number)
            # A branch to itself is padding after the last exit.
            if start < number - 1:
                found.append(range(start, number + 1))
    return found


def _name(stage: Stage, line: str) -> str:
    """What an instruction does: its opcode alone. Empty: it has no business on dQ's path."""
    if stage is not Stage.LLIR:
        code = line.partition(" ")[2] if line.startswith("@") else line
        return _opcode(code.partition(" ")[0])
    if "asm " in line:
        assembly = _LLVM_ASM.search(line)
        opcode = _ASM_OPCODE.search(assembly.group(1)) if assembly else None
        return _opcode(opcode.group(0)) if opcode else ""
    if "addrspace(" in line and "getelementptr" not in line:
        memory = _LLVM_MEMORY.search(line)
        return _llvm_memory(*memory.groups()) if memory else ""
    if "call " in line:
        called = _LLVM_CALLED.search(line)
        return "" if called is None else "barrier" if "barrier" in called.group(1) else called.group(1)
    ordered = _LLVM_ORDERED.search(line)
    return ordered.group(0) if ordered else ""


def _llvm_memory(kind: str, count: str | None, element: str, space: str) -> str:
    bits = _LLVM_BITS.get(element) or int(element.removeprefix("i"))
    return f"{'shared' if space == '3' else 'global'} {kind} {count or 1} x {bits} bit"


@cache
def _opcode(opcode: str) -> str:
    """A PTX opcode; barriers and shared memory by what they do, because their spelling changes with the
    type that a release says (b32, f32)."""
    opcode = opcode.replace("::cta", "").rstrip(";")
    if opcode.startswith(("bar.sync", "barrier")):
        return "barrier"
    memory = _PTX_SHARED.fullmatch(opcode)
    if memory:
        kind, count, bits = memory.groups()
        return f"shared {'load' if kind == 'ld' else 'store'} {count or 1} x {bits} bit"
    return opcode
