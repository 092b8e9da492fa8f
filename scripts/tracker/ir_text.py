"""TTIR and TTGIR in a canonical spelling, and dQ's path through them. Pure: text in, lines out.

Releases print the same program differently: other names for values, aliases and dialects, constants in
another order, locations, attributes that are new and have their default. None of that is a difference
here; a layout is what it says, not what its alias is called.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

# Dialects and operations that were renamed; the old names mean the same.
_RENAMED = (
    ("triton_nvidia_gpu.", "ttng."),
    ("triton_gpu.", "ttg."),
    ("!tt.memdesc", "!ttg.memdesc"),
    ("ttng.dot_", "ttng.warp_group_dot_"),
    ("ttng.warp_group_dot_async", "ttng.warp_group_dot"),
    ("ttg.memdesc_trans", "tt.trans"),
    ("tt.experimental_descriptor", "tt.descriptor"),
)
# Parts of layouts that older releases leave out where they say nothing: a cluster of one block.
_TRIVIAL = re.compile(
    r", (?:CTAsPerCGA = \[1(?:, 1)*\]|CTASplitNum = \[1(?:, 1)*\]|CTAOrder = \[[\d, ]*\]|"
    r"block = \[\]|rank = \d+|CGALayout = \[(?:\[0(?:, 0)*\](?:, )?)*\])"
)
# What shared memory for tensor cores was called before 3.3, by its swizzle: (perPhase, maxPhase) -> bytes.
_OLD_SHARED = re.compile(
    r"#ttg\.shared<\{vec = (\d+), perPhase = (\d+), maxPhase = (\d+), order = \[([\d, ]*)\]"
    r"(?:, hasLeadingOffset = (true|false))?\}>"
)
_SWIZZLE_BYTES = {("1", "8"): 128, ("2", "4"): 64, ("4", "2"): 32}
_ALIAS = re.compile(r"^(#[A-Za-z_]\w*) = (.*)$")
_ALIAS_USE = re.compile(r"#[A-Za-z_]\w*\b(?![\w.])")
_VALUE = re.compile(r"%[\w-]+(?:#\d+)?")
_DEFINED = re.compile(r"(%[\w-]+)(?::\d+)?(?= =(?!=))")
_CONSTANT = re.compile(r"^(%[\w-]+) = arith\.constant (.*)$")
_OPERATION = re.compile(r"^(?:(?P<results>%[\w#:, %-]+?) = )?\"?(?P<name>[a-z_]+\.[\w.]+)\"?(?P<rest>.*)$")
_ATTRIBUTE_NAME = re.compile(r"\w+(?= = )|(?<=[{ ])\w+(?=[,}])")
_ATTRIBUTES = re.compile(r" \{[^{}]*\}(?= :|$)")
# A tensor descriptor's block was a tensor type up to 3.7.
_DESCRIPTOR = re.compile(r"!tt\.tensordesc<tensor<([^<>]*(?:<\{[^<>]*\}>)?)>>")
_TENSOR_LAYOUT = re.compile(r"tensor<[^,]*, (#ttg\.(?:[^<>]|<[^<>]*>|<(?:[^<>]|<[^<>]*>)*>)*)>")
_DOT_TYPES = re.compile(r"(?:memdesc|tensor)<([\dx]+\w+)")
# Where dQ's path ends besides its matrix product: loops, and what comes from memory.
_PATH_ENDS = ("scf.", "tt.load", "ttg.async", "ttng.init", "tt.make_tensor_desc")


@dataclass(frozen=True, slots=True)
class _Operation:
    line: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str

    def readable(self) -> str:
        """Without names of values, and of types only what the operation is about."""
        return _VALUE.sub("%", self.text)


def same_ir_but_for_names(before: list[str], after: list[str]) -> bool:
    """Whether `plain_ir`'s lines are the same once values are numbered as they come."""
    return len(before) == len(after) and _renumbered(before) == _renumbered(after)


def _renumbered(lines: list[str]) -> list[str]:
    numbers: dict[str, str] = {}
    fresh = itertools.count()

    def number(match: re.Match[str]) -> str:
        name, _, index = match.group(0).partition("#")
        if name not in numbers:
            numbers[name] = f"%{next(fresh)}"
        return f"{numbers[name]}#{index}" if index else numbers[name]

    numbered = []
    for line in lines:
        for defined in _DEFINED.findall(line):
            # Sibling regions (two loops) reuse names: a definition always starts a new value.
            numbers[defined] = f"%{next(fresh)}"
        numbered.append(_VALUE.sub(number, line))
    return numbered


def plain_ir(text: str) -> list[str]:
    """A TTIR or TTGIR module without locations and aliases, in today's names, constants written out."""
    aliases: dict[str, str] = {}
    constants: dict[str, str] = {}
    lines = []
    for raw in text.splitlines():
        line = _without_locations(raw.strip())
        if not line or line.startswith("#loc"):
            continue
        for old, new in _RENAMED:
            line = line.replace(old, new)
        alias = _ALIAS.match(line)
        line = _ALIAS_USE.sub(lambda use: aliases.get(use.group(0), use.group(0)), line)
        if alias:
            aliases[alias.group(1)] = _canonical_layout(line.split(" = ", 1)[1])
            continue
        # Every buffer of these kernels lies in shared memory; older releases do not say it.
        line = line.replace(", #ttg.shared_memory", "")
        line = _DESCRIPTOR.sub(r"!tt.tensordesc<\1>", line)
        constant = _CONSTANT.match(line)
        if constant:
            constants[constant.group(1)] = f"<{constant.group(2)}>"
            continue
        for defined in _DEFINED.findall(line):
            constants.pop(defined, None)
        lines.append(_VALUE.sub(lambda use: constants.get(use.group(0), use.group(0)), line))
    return lines


def _without_locations(line: str) -> str:
    """Locations nest and hold quoted paths, so brackets are counted, not matched."""
    while (start := line.find(" loc(")) >= 0:
        depth, end, quoted = 0, start + len(" loc"), False
        for end in range(start + len(" loc"), len(line)):
            quoted ^= line[end] == '"'
            depth += 0 if quoted else (line[end] == "(") - (line[end] == ")")
            if depth == 0 and not quoted:
                break
        line = line[:start] + line[end + 1 :]
    return line


def _canonical_layout(layout: str) -> str:
    """A layout's content without what releases leave out or call otherwise."""
    layout = _TRIVIAL.sub("", layout)
    old = _OLD_SHARED.fullmatch(layout)
    if old is None:
        return layout
    vec, per_phase, max_phase, order, leading = old.groups()
    if leading != "true":
        return (
            f"#ttg.swizzled_shared<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
            f"order = [{order}]}}>"
        )
    swizzle = _SWIZZLE_BYTES.get((per_phase, max_phase), 0)
    transposed = "true" if order == "0, 1" else "false"
    # These kernels multiply 16-bit elements; the old spelling does not say it.
    return (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = {transposed}, "
        "elementBitWidth = 16}>"
    )


def _operations(lines: list[str]) -> list[_Operation]:
    found = []
    for number, line in enumerate(lines):
        match = _OPERATION.match(line)
        if match is not None:
            results = tuple(_VALUE.findall(match["results"] or ""))
            operands = tuple(_VALUE.findall(match["rest"]))
            text = f"{match['name']}{match['rest']}"
            found.append(_Operation(number, match["name"], results, operands, text))
    return found


def is_dq_write(name: str, text: str) -> bool:
    """dQ is the only float32 tile that these kernels write, and the only one that they reduce."""
    if name in {"tt.atomic_rmw", "ttng.async_tma_reduce", "tt.descriptor_reduce"}:
        return True
    if name == "tt.elementwise_inline_asm":
        return "red." in text
    return name == "tt.store" and "x!tt.ptr<f32" in text


@dataclass(frozen=True, slots=True)
class PathOperation:
    """One operation on dQ's path. ``attributes`` stand apart because a new release may print a default."""

    name: str
    attributes: tuple[str, ...]
    types: str

    def spell(self, known: frozenset[str]) -> str:
        """With the attributes whose names are ``known`` to the other side: what that never names is a new
        spelling of a default, not a difference."""
        kept = sorted(a for a in self.attributes if a.split(" = ")[0] in known)
        braces = f" {{{', '.join(kept)}}}" if kept else ""
        return f"{self.name}{braces} : {self.types}" if self.types else f"{self.name}{braces}"


def attribute_names(lines: list[str]) -> frozenset[str]:
    """Every name that stands before an equals sign, or alone in a list of attributes."""
    return frozenset(name for line in lines for name in _ATTRIBUTE_NAME.findall(line))


def ir_path(lines: list[str]) -> list[PathOperation]:
    """dQ's path in order: each operation from the matrix product to the write, with types and layouts."""
    return [_path_operation(operation) for operation in _path(lines)]


def ir_path_places(lines: list[str]) -> dict[int, str]:
    """The same as {line: operation}, without attributes."""
    return {operation.line: _path_operation(operation).spell(frozenset()) for operation in _path(lines)}


def _path(lines: list[str]) -> list[_Operation]:
    operations = _operations(lines)
    on_path: set[int] = set()
    pending: list[tuple[str, int]] = []
    for index, operation in enumerate(operations):
        if is_dq_write(operation.name, operation.text):
            on_path.add(index)
            pending += [(value, index) for value in _written(operations, index, on_path)]
    while pending:
        value, user = pending.pop()
        source = _definition(operations, value, user)
        if source is None or source in on_path:
            continue
        operation = operations[source]
        if operation.name.startswith(_PATH_ENDS):
            continue
        on_path.add(source)
        if operation.name.endswith("dot_wait"):
            # It hands every operand through; result n is operand n.
            pending.append((operation.operands[int(value.partition("#")[2] or 0)], source))
        elif "dot" not in operation.name:
            pending += [(operand, source) for operand in operation.operands]
    if any(operations[index].name == "ttng.async_tma_reduce" for index in on_path):
        on_path.update(i for i, other in enumerate(operations) if other.name == "ttng.async_tma_store_wait")
    return [operations[index] for index in sorted(on_path)]


def _written(operations: list[_Operation], index: int, on_path: set[int]) -> list[str]:
    """The values that a write takes, without its pointers and mask: how an address is computed is the
    same at every width. A bulk reduction reads shared memory: what the nearest store put there."""
    write = operations[index]
    if write.name == "ttng.async_tma_reduce":
        for before in range(index - 1, -1, -1):
            store = operations[before]
            if store.name == "ttg.local_store" and store.operands[1] in write.operands:
                on_path.add(before)
                return [store.operands[0]]
            if store.name == "ttg.local_alloc" and store.results[0] in write.operands and store.operands:
                on_path.add(before)
                return list(store.operands)
        return []
    if write.name in {"tt.atomic_rmw", "tt.store"}:
        return list(write.operands[1:2])
    if write.name == "tt.descriptor_reduce":
        return list(write.operands[-1:])
    types = _split_types(write.text.rpartition(" : ")[2].partition(" -> ")[0])
    return [value for value, kind in zip(write.operands, types, strict=False) if "xf32" in kind]


def _definition(operations: list[_Operation], value: str, user: int) -> int | None:
    """The nearest operation before the user that makes the value: sibling regions reuse names."""
    name = value.split("#")[0]
    for index in range(user - 1, -1, -1):
        if any(result.split("#")[0].split(":")[0] == name for result in operations[index].results):
            return index
    return None


def _path_operation(operation: _Operation) -> PathOperation:
    attributes = _ATTRIBUTES.search(operation.text)
    named = tuple(attributes.group(0).strip(" {}").split(", ")) if attributes else ()
    bare = _ATTRIBUTES.sub("", operation.readable())
    before, _, types = bare.rpartition(" : ") if " : " in bare else (bare, "", "")
    if operation.name.endswith("dot_wait"):
        # How many values it holds back for later is about what stands after it.
        before, types = operation.name, _split_types(types)[0]
    elif "dot" in operation.name:
        # Its operands come before dQ's path: of them only the shapes.
        shapes = " * ".join(_DOT_TYPES.findall(types.rpartition(" -> ")[0]))
        before, types = operation.name, f"{shapes} -> {types.rpartition(' -> ')[2]}"
    return PathOperation(before.replace("#ttg.", ""), named, _say_layout_once(types).replace("#ttg.", ""))


def _say_layout_once(types: str) -> str:
    """Types whose tensors share one layout, with the layout at the end: a line that can be read."""
    layouts = set(_TENSOR_LAYOUT.findall(types))
    if len(layouts) != 1:
        return types
    [layout] = layouts
    return f"{types.replace(f', {layout}>', '>')} in {layout}"


def _split_types(types: str) -> list[str]:
    """A list of types at its own commas: those inside of a type stand in brackets."""
    depth, start, found = 0, 0, []
    for position, character in enumerate(types):
        depth += (character in "<([{") - (character in ")]}>" and types[position - 1 : position] != "-")
        if character == "," and depth == 0:
            found.append(types[start:position].strip())
            start = position + 1
    return [*found, types[start:].strip()]
