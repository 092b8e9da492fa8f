"""Metrics of machine code, on texts that are short enough to count by hand."""

from typing import Any

import pytest

from kernels.codegen import (
    METRICS,
    SM_LIMITS,
    combine,
    count_ptx_parameters,
    is_matrix,
    kernel_identity,
    measure,
    occupancy_blocks,
    parse_sass,
)

LAUNCH = {
    "kernel_name": "k",
    "num_warps": 8,
    "shared_memory_bytes": 0,
    "registers": 64,
    "cluster_dims": [1, 1, 1],
}


def sass(*lines: str) -> str:
    """nvdisasm's form: what ends in a colon is a label, all else an instruction."""
    text, address = ["//--------------------- .text.k           --------------------------"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(f".{line}")
        else:
            predicate, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
            text.append(f"        /*{address:04x}*/             {predicate:>8} {rest} ;")
            address += 16
    return "\n".join(text)


# Two loops, the second with a longer and a shorter way round; then dK's store, the exit and the padding.
CODE = sass(
    "S2R R0, SR_TID.X",
    "L_x_1:",
    "HGMMA.64x64x16.F32 R24, gdesc[UR16], RZ, !UPT",
    "STL [R1], R5",
    "MEMBAR.ALL.CTA",
    "MEMBAR.ALL.GPU",
    "ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU PT, RZ, desc[UR30][R32.64], R40",
    "CCTL.IVALL",
    "@!P2 BRA `(.L_x_1)",
    "L_x_7:",
    "LDL R5, [R1]",
    "LDL R6, [R1+0x4]",
    "L_x_8:",
    "HGMMA.64x64x16.F32 R24, gdesc[UR16], RZ, !UPT",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR30][R2.64], R5",
    "@P0 BRA `(.L_x_8)",
    "@P1 BRA `(.L_x_7)",
    "@P3 BRA `(.L_x_3)",
    "STG.E.128 desc[UR30][R2.64], R20",
    "L_x_3:",
    "EXIT",
    "L_x_9:",
    "BRA `(.L_x_9)",
)


def measured(
    code: str = CODE, ptx: str = "", tile_elements: int = 4096, whole: bool = False
) -> dict[str, Any]:
    stages = {"ttir": "", "ttgir": "", "llir": "", "ptx": ptx, "sass": code}
    return measure(stages, LAUNCH, 90, tile_elements, whole)


def test_loops_are_backward_branches() -> None:
    parsed = parse_sass(CODE)
    assert len(parsed.instructions) == 19
    # Neither the jump forward nor the padding's jump to itself is one.
    assert parsed.loops() == [(1, 7), (10, 13), (8, 14)]


def test_main_loop_is_the_shortest_of_those_with_most_products() -> None:
    assert [i.base for i in parse_sass(CODE).main_loop()] == ["HGMMA", "BAR", "RED", "BRA"]
    busier = CODE.replace("STL [R1], R5", "HMMA.16816.F32 R4, R8, R2, R4")
    assert len(parse_sass(busier).main_loop()) == 7
    assert parse_sass(sass("L_x_0:", "NOP", "BRA `(.L_x_0)")).main_loop() == ()
    assert measured(sass("EXIT"))["metrics"]["main_loop_instructions"] is None


def test_counts() -> None:
    metrics = measured()["metrics"]
    expected = {
        "sass_dq_writes": 2,  # the store of dK stands outside
        "gpu_fences": 1,  # a fence for the block only is not counted
        "cache_invalidations": 1,
        "matrix_instructions": 2,
        "barriers": 1,
        "spill_stores": 1,
        "spill_loads": 2,
        "sass_instructions": 19,
        "main_loop_instructions": 4,
        "registers": 64,
    }
    assert {name: metrics[name] for name in expected} == expected
    assert set(metrics) == set(METRICS)


def test_every_store_is_dqs_in_a_kernel_that_makes_nothing_else() -> None:
    result = measured(whole=True)
    assert result["metrics"]["sass_dq_writes"] == 3
    assert result["dq_path"]["sass"]["STG.E.128"] == 1


def test_paths_and_opcodes() -> None:
    result = measured()
    assert result["dq_path"]["sass"] == {
        "ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU": 1,
        "RED.E.ADD.F32.FTZ.RN.STRONG.GPU": 1,
        "MEMBAR.ALL.GPU": 1,
        "CCTL.IVALL": 1,
    }
    assert result["opcodes"]["BRA"] == 5
    assert result["opcodes"]["HGMMA"] == 2


@pytest.mark.parametrize(
    "base", ["HMMA", "IMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "UTCHMMA", "UTCQMMA", "QMMA"]
)
def test_matrix_instructions(base: str) -> None:
    assert is_matrix(parse_sass(sass(f"{base}.64 R0, R1")).instructions[0])


@pytest.mark.parametrize("base", ["FFMA", "IMAD", "UTMALDG", "WARPGROUP", "UTCBAR"])
def test_other_instructions(base: str) -> None:
    assert not is_matrix(parse_sass(sass(f"{base}.64 R0, R1")).instructions[0])


def test_predicates_and_pairs_are_not_part_of_the_opcode() -> None:
    text = (
        "        /*0000*/              @!UP0 UTMAREDG.2D.ADD [UR4], [UR8] ;\n"
        "        /*0008*/         {         IMAD R1, R2, R3, R4  ;\n"
    )
    assert [i.opcode for i in parse_sass(text).instructions] == ["UTMAREDG.2D.ADD", "IMAD"]


def test_a_text_without_instructions_is_refused() -> None:
    with pytest.raises(ValueError, match="no instruction"):
        parse_sass("nvdisasm: error")


CONSTANTS = "\n//------- .nv.constant4 -------\n        /*0000*/ \t.dword\t_$_str\n\t.zero\t\t624\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("S2R R0, SR_TID.X ;", "S2R R0, SR_TID.X ;  // thread"),
        ("//--------------------- .text.k ", "//--------------------- .text.other "),
        ("L_x_8", "L_x_42"),
        ("L_x_9", "L_x_1000"),
        ("        /*0000*/", "\n.L_debug_7:\n        /*0000*/"),  # a label that no branch goes to
    ],
    ids=["comment", "name", "label", "padding-label", "unused-label"],
)
def test_identity_ignores_what_is_not_executed(old: str, new: str) -> None:
    assert old in CODE
    assert kernel_identity(CODE.replace(old, new), LAUNCH) == kernel_identity(CODE, LAUNCH)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STL [R1], R5", "STL [R1], R6"),
        ("MEMBAR.ALL.CTA", "MEMBAR.ALL.GPU"),
        ("@P0 BRA", "@!P0 BRA"),
        ("@P0 BRA `(.L_x_8)", "@P0 BRA `(.L_x_7)"),
        ("\t.zero\t\t624", "\t.zero\t\t640"),
        (".dword\t_$_str", ".dword\t_$_other"),
    ],
    ids=["operand", "opcode", "predicate", "branch", "zeros", "constant"],
)
def test_identity_sees_the_code_and_its_data(old: str, new: str) -> None:
    text = CODE + CONSTANTS
    assert old in text
    assert kernel_identity(text.replace(old, new), LAUNCH) != kernel_identity(text, LAUNCH)


def test_identity_sees_where_a_label_stands() -> None:
    early = sass("L_x_0:", "MEMBAR.ALL.GPU", "NOP", "@P0 BRA `(.L_x_0)", "EXIT")
    late = sass("MEMBAR.ALL.GPU", "L_x_0:", "NOP", "@P0 BRA `(.L_x_0)", "EXIT")
    assert kernel_identity(early, LAUNCH) != kernel_identity(late, LAUNCH)


@pytest.mark.parametrize(
    ("name", "value"), [("num_warps", 4), ("shared_memory_bytes", 1024), ("cluster_dims", [2, 1, 1])]
)
def test_identity_sees_the_launch(name: str, value: Any) -> None:
    assert kernel_identity(CODE, LAUNCH | {name: value}) != kernel_identity(CODE, LAUNCH)


def test_identity_ignores_the_kernels_name_and_the_order_of_the_launch() -> None:
    other = dict(reversed((LAUNCH | {"kernel_name": "other"}).items()))
    assert kernel_identity(CODE, other) == kernel_identity(CODE, LAUNCH)


def test_ptx_parameters() -> None:
    parameters = "\t.param .u64 .ptr .global .align 1 k_param_0,\n\t.param .f32 k_param_1\n"
    ptx = f".visible .entry k(\n{parameters})\n.reqntid 256\n{{\n\tld.param.b32 %r1, [k_param_1];\n}}\n"
    assert count_ptx_parameters(ptx) == 2
    assert count_ptx_parameters(".entry k()\n{") == 0
    with pytest.raises(ValueError, match=r"no \.entry"):
        count_ptx_parameters(".version 9.4")


@pytest.mark.parametrize(
    ("capability", "registers", "shared", "warps", "blocks"),
    [
        # Registers: 65536 / (ceil(r * 32 / 256) * 256 * warps).
        (90, 255, 0, 8, 1),  # 8192 a warp, 65536 a block
        (90, 168, 0, 4, 3),  # 5376 a warp, 21504 a block
        (90, 129, 0, 8, 1),  # rounded up to 4352 a warp: 1.88 blocks (4128 would give 1.98)
        (90, 128, 0, 8, 2),  # 4096 a warp
        # Shared memory: the SM's / (the block's + 1 KiB).
        (90, 32, 227 * 1024, 4, 1),
        (90, 32, 113 * 1024, 4, 2),  # 228 / 114
        (90, 32, 114 * 1024, 4, 1),  # 228 / 115
        (90, 32, 75 * 1024 + 512, 4, 2),  # 228 / 76.5; without the KiB there would be 3
        (80, 32, 113 * 1024, 4, 1),  # 164 / 114
        (90, 32, 228 * 1024, 4, 0),  # with its own KiB more than there is
        # Threads: 2048 / (warps * 32); blocks: 32.
        (90, 16, 0, 8, 8),
        (90, 16, 0, 1, 32),
        (100, 32, 0, 4, 16),
    ],
)
def test_occupancy(capability: int, registers: int, shared: int, warps: int, blocks: int) -> None:
    assert occupancy_blocks(capability, registers, shared, warps) == blocks


def test_every_target_has_limits() -> None:
    from kernels.compile import TARGETS, compute_capability

    assert {compute_capability(target) for target in TARGETS} == set(SM_LIMITS)


def test_two_kernels_make_one_number() -> None:
    empty = dict.fromkeys(METRICS)
    first = empty | {"registers": 255, "occupancy_blocks": 1, "spill_loads": 3, "main_loop_instructions": 90}
    second = empty | {"registers": 128, "occupancy_blocks": 2, "spill_loads": 4, "dq_vector_width": 4}
    both = combine([first, second])
    assert both["registers"] == 255
    assert both["occupancy_blocks"] == 1
    assert both["spill_loads"] == 7
    assert both["dq_vector_width"] == 4
    assert both["main_loop_instructions"] == 90
    assert both["barriers"] is None
    assert list(both) == list(METRICS)
