"""TTIR and TTGIR in a canonical spelling: every kind of noise is none, and the real thing beside it is."""

from __future__ import annotations

import pytest

from scripts.tracker.ir_text import attribute_names, ir_path, plain_ir, same_ir_but_for_names

BLOCKED = "#blocked = #ttg.blocked<{sizePerThread = [1, 4], order = [1, 0]}>\n"
ATOMIC = (
    "%2 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %1, %m : (tensor<64x64x!tt.ptr<f32>, #blocked>, "
    "tensor<64x64xf32, #blocked>, tensor<64x64xi1, #blocked>) -> tensor<64x64xf32, #blocked>\n"
)
CONVERT = "%1 = ttg.convert_layout %0 : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked>\n"
MMA = "#mma = #ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 2], instrShape = [16, 32, 16]}>\n"
DOT = (
    "%0 = ttng.warp_group_dot %a, %b, %c {inputPrecision = 0 : i32} : !ttg.memdesc<64x128xf16, #shared> * "
    "!ttg.memdesc<128x64xf16, #shared> -> tensor<64x64xf32, #mma>\n"
)
KERNEL = BLOCKED + MMA + DOT + CONVERT + ATOMIC


def same(before: str, after: str) -> bool:
    return same_ir_but_for_names(plain_ir(before), plain_ir(after))


def path(text: str, other: str | None = None) -> list[str]:
    """dQ's path as it is spelled against another text (its own, if none is given)."""
    known = attribute_names(plain_ir(text if other is None else other))
    return [operation.spell(known) for operation in ir_path(plain_ir(text))]


# (what differs by name only, what differs in truth)
NOISE = {
    "names of values": (("%1", "%dq_7"), ("%p, %1, %m", "%1, %p, %m")),
    "names of aliases": (("#blocked", "#blocked3"), ("[1, 4]", "[4, 1]")),
    "the dialect's old name": (("ttg.", "triton_gpu."), ("ttg.convert_layout", "ttg.other")),
    "an operation's old name": (
        ("ttng.warp_group_dot ", "triton_nvidia_gpu.dot_async "),
        ("ttng.warp_group_dot", "tt.dot"),
    ),
    "locations": (
        ("xf32, #mma>\n", 'xf32, #mma> loc(callsite("f(x).py":1:2 at #loc3))\n'),
        ("64x128xf16", "64x64xf16"),
    ),
    "where things lie": (
        ("xf16, #shared>", "xf16, #shared, #ttg.shared_memory>"),
        ("128x64xf16, #shared>", "128x64xf16, #other>"),
    ),
    "clusters of one block": (
        ("order = [1, 0]}>", "order = [1, 0], CTAsPerCGA = [1, 1], CTAOrder = [1, 0]}>"),
        ("order = [1, 0]}>", "order = [1, 0], CTAsPerCGA = [2, 1]}>"),
    ),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_no_difference_and_the_truth_is(kind: str) -> None:
    (old, noise), (before, truth) = NOISE[kind]
    assert old in KERNEL
    assert before in KERNEL
    assert same(KERNEL, KERNEL.replace(old, noise))
    assert path(KERNEL) == path(KERNEL.replace(old, noise))
    assert not same(KERNEL, KERNEL.replace(before, truth))


def test_locations_that_stand_alone_are_left_out() -> None:
    assert same(KERNEL, f'#loc = loc("a (b".py:1:2)\n#loc7 = loc(unknown)\n{KERNEL}')


def test_constants_may_stand_in_another_order_and_have_another_value_only_in_truth() -> None:
    one = "%c1 = arith.constant 1 : i32\n%c2 = arith.constant 2 : i32\n%3 = arith.addi %c1, %c2 : i32\n"
    other = (
        "%x = arith.constant 2 : i32\n%c1_i32 = arith.constant 1 : i32\n%3 = arith.addi %c1_i32, %x : i32\n"
    )
    assert same(one, other)
    assert not same(one, other.replace("constant 2", "constant 3"))


def test_a_constant_is_forgotten_where_its_name_is_defined_anew() -> None:
    """Sibling regions reuse names: in the second loop it may be no constant."""
    text = "%0 = arith.constant 1 : i32\n%0 = tt.load %p : i32\n%2 = arith.addi %0, %0 : i32\n"
    assert plain_ir(text)[-1] == "%2 = arith.addi %0, %0 : i32"


def test_a_name_that_two_loops_share_is_two_values() -> None:
    loops = (
        "%0 = tt.load %p : i32\n%1 = arith.negi %0 : i32\n%0 = tt.load %q : i32\n%2 = arith.negi %0 : i32\n"
    )
    apart = loops.replace("%0 = tt.load %q", "%5 = tt.load %q").replace(
        "%2 = arith.negi %0", "%2 = arith.negi %5"
    )
    assert same(loops, apart)
    assert not same(loops, apart.replace("negi %5", "negi %0"))


@pytest.mark.parametrize(
    ("old", "new", "other"),
    [
        (
            "#shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], hasLeadingOffset = true}>",
            "#nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>",
            "#nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>",
        ),
        (
            "#shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [0, 1], hasLeadingOffset = true}>",
            "#nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 16}>",
            "#nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>",
        ),
        (
            "#shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], hasLeadingOffset = false}>",
            "#swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>",
            "#swizzled_shared<{vec = 2, perPhase = 1, maxPhase = 1, order = [0]}>",
        ),
    ],
)
def test_shared_memory_before_3_3_is_read_as_todays(old: str, new: str, other: str) -> None:
    use = "%0 = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #s>\n"
    before, after, else_where = (f"#s = #ttg.{layout[1:]}\n{use}" for layout in (old, new, other))
    assert same(before, after)
    assert not same(before, else_where)


def test_dqs_path_runs_from_the_matrix_product_to_the_write() -> None:
    mma = "nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 2], instrShape = [16, 32, 16]}>"
    blocked = "blocked<{sizePerThread = [1, 4], order = [1, 0]}>"
    product = "64x128xf16 * 128x64xf16 -> tensor<64x64xf32>"
    assert path(f"%9 = tt.load %q : i32\n{KERNEL}%7 = arith.negi %9 : i32\n") == [
        f"ttng.warp_group_dot {{inputPrecision = 0 : i32}} : {product} in {mma}",
        f"ttg.convert_layout % : tensor<64x64xf32, {mma}> -> tensor<64x64xf32, {blocked}>",
        "tt.atomic_rmw fadd, acq_rel, gpu, %, %, % : (tensor<64x64x!tt.ptr<f32>>, tensor<64x64xf32>, "
        f"tensor<64x64xi1>) -> tensor<64x64xf32> in {blocked}",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[1, 4]", "[1, 2]"),
        ("warpsPerCTA = [4, 2]", "warpsPerCTA = [8, 1]"),
        ("acq_rel", "relaxed"),
        ("fadd", "add"),
        ("64x64xf32", "64x64xf16"),
        ("inputPrecision = 0", "inputPrecision = 1"),
    ],
)
def test_types_layouts_order_and_precision_are_part_of_the_path(old: str, new: str) -> None:
    assert old in KERNEL
    assert path(KERNEL) != path(KERNEL.replace(old, new))


def test_an_attribute_that_the_other_side_never_names_is_a_new_default() -> None:
    newer = KERNEL.replace("{inputPrecision = 0 : i32}", "{inputPrecision = 0 : i32, scheduled = 1 : i32}")
    assert path(newer, KERNEL) == path(KERNEL, newer)
    # If it names it anywhere, its absence here says something.
    knows = f"{KERNEL}%8 = tt.load %p {{scheduled = 2 : i32}} : i32\n"
    assert path(newer, knows) != path(knows, newer)


def test_how_addresses_and_masks_are_computed_is_not_on_the_path() -> None:
    address = "%p = tt.addptr %x, %y : tensor<64x64x!tt.ptr<f32>, #blocked>, tensor<64x64xi32, #blocked>\n"
    assert path(BLOCKED + MMA + address + DOT + CONVERT + ATOMIC) == path(KERNEL)


def test_inline_assembly_is_followed_to_its_value_not_to_its_address() -> None:
    layout = "#mma"
    asm = (
        '%r = tt.elementwise_inline_asm "red.global.add.f32 [$1], $2;" {pure = false} %q, %0 : '
        f"tensor<64x64xi64, {layout}>, tensor<64x64xf32, {layout}> -> tensor<64x64xi32, {layout}>\n"
    )
    address = f"%q = tt.ptr_to_int %z : tensor<64x64x!tt.ptr<f32>, {layout}> -> tensor<64x64xi64, {layout}>\n"
    names = [line.split(" ")[0] for line in path(MMA + DOT + address + asm)]
    assert names == ["ttng.warp_group_dot", "tt.elementwise_inline_asm"]


@pytest.mark.parametrize(
    "buffer", ["ttg.local_store %0, %buf : tensor<64x64xf32, #mma> -> !ttg.memdesc<64x64xf32, #s>\n", ""]
)
def test_a_bulk_reduction_is_followed_through_shared_memory(buffer: str) -> None:
    alloc = "%buf = ttg.local_alloc %0 : (tensor<64x64xf32, #mma>) -> !ttg.memdesc<64x64xf32, #s>\n"
    types = "!tt.tensordesc<64x64xf32>, !ttg.memdesc<64x64xf32, #s>"
    reduce = f"ttng.async_tma_reduce add, %d[%i, %j] %buf : {types}\n"
    names = [line.split(" ")[0] for line in path(MMA + DOT + (buffer or alloc) + reduce)]
    assert names == [
        "ttng.warp_group_dot",
        "ttg.local_store" if buffer else "ttg.local_alloc",
        "ttng.async_tma_reduce",
    ]


def test_waiting_for_a_bulk_reduction_is_part_of_its_path_and_of_no_other() -> None:
    wait = "ttng.async_tma_store_wait {pendings = 0 : i32}\n"
    reduce = "ttng.async_tma_reduce add, %d[%i, %j] %0 : !tt.tensordesc<64x64xf32>, !ttg.memdesc<64x64xf32>\n"
    assert path(reduce + wait)[-1] == "ttng.async_tma_store_wait {pendings = 0 : i32}"
    assert path(reduce + wait) != path(reduce + wait.replace("0 : i32", "1 : i32"))
    assert path(KERNEL + wait) == path(KERNEL)
    # A flag alone counts where both sides know it.
    only_read = wait.replace("0 : i32", "0 : i32, read_only")
    assert path(reduce + only_read, reduce + wait) == path(reduce + wait)
    knows = reduce + wait + only_read
    assert path(reduce + only_read + only_read, knows) != path(knows)


def test_a_tensor_descriptor_is_read_as_todays() -> None:
    types = "!tt.tensordesc<tensor<64x64xf32, #s>>, tensor<64x64xf32>"
    old = f"tt.descriptor_reduce add, %d[%i, %j], %0 : {types}\n"
    new = old.replace("tensordesc<tensor<64x64xf32, #s>>", "tensordesc<64x64xf32, #s>")
    shared = "#s = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>\n"
    assert path(shared + old) == path(shared + new)
    assert path(shared + old) != path(shared + new.replace("tensordesc<64x64", "tensordesc<32x64"))


def test_a_wait_hands_through_the_operand_of_its_own_number() -> None:
    types = "tensor<1xf32, #mma>, tensor<64x64xf32, #mma>"
    wait = f"%w:2 = ttng.warp_group_dot_wait %other, %0 {{pendings = 0 : i32}} : {types}\n"
    convert = CONVERT.replace("%0", "%w#1")
    names = [line.split(" ")[0] for line in path(BLOCKED + MMA + DOT + wait + convert + ATOMIC)]
    assert names == ["ttng.warp_group_dot", "ttng.warp_group_dot_wait", "ttg.convert_layout", "tt.atomic_rmw"]


@pytest.mark.parametrize(
    "text", ["", "no IR at all", "%0 = \x00 : loc(", "#blocked = #blocked\n", "loc( " * 50]
)
def test_damaged_text_has_no_path_and_is_no_crash(text: str) -> None:
    assert path(text) == []
    assert same(text, text)
