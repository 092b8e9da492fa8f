"""LLVM IR, PTX and SASS in a canonical spelling: every kind of noise is none, the real thing beside it is."""

from __future__ import annotations

import pytest

from scripts.tracker.code_text import code_path, plain_code, same_but_for_names
from scripts.tracker.model import Stage

LLIR = """\
; ModuleID = 'LLVMDialectModule'
source_filename = "LLVMDialectModule"
@global_smem = external addrspace(3) global [0 x i8], align 16
define void @_attn_bwd(ptr addrspace(1) %0, i32 %1) {
  br label %2
2:
  %3 = tail call { float, float } asm sideeffect "wgmma.wait_group.sync.aligned 0; // $0", "=f,=f"()
  %4 = extractvalue { float, float } %3, 0
  store <2 x float> zeroinitializer, ptr addrspace(3) @global_smem, align 8
  tail call void @llvm.nvvm.barrier0()
  %5 = load <4 x float>, ptr addrspace(3) @global_smem, align 16
  %6 = tail call i32 asm sideeffect "@$3 atom.global.gpu.acq_rel.add.f32 $0, [ $1 + 0 ], $2;", "=r,l"(i32 %1)
  %7 = icmp slt i32 %1, 64
  br i1 %7, label %2, label %8
8:
  store i32 %1, ptr addrspace(1) %0, align 4
  ret void
}
"""
PTX = """\
.version 8.4
.target sm_90a
.visible .entry _attn_bwd(
	.param .u64 _attn_bwd_param_0
)
{
	.reg .b32 	%r<9>;
	st.shared.v4.b32 	[%r9], {%r1, %r2, %r3, %r4};
$L__BB0_1:
	wgmma.wait_group.sync.aligned 0;
	st.shared.v2.f32 	[%r1], {%f1, %f2};
	bar.sync 	0;
	ld.shared.v4.f32 	{%f1, %f2, %f3, %f4}, [%r1+16];
	// begin inline asm
	@%p1 atom.global.gpu.acq_rel.add.f32 %r2, [ %rd1 + 0 ], %r3;
	// end inline asm
	cp.async.cg.shared.global [ %r5 + 0 ], [ %rd2 + 0 ], 0x10, %r6;
	setp.lt.s32 	%p2, %r2, 64;
	@%p2 bra 	$L__BB0_1;
	st.global.b32 	[%rd1], %r2;
	ret;
}
"""
SASS = """\
//--------------------- .text._attn_bwd           --------------------------
	.section	.text._attn_bwd,"ax",@progbits
        .global         _attn_bwd
.text._attn_bwd:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   STS.128 [R9], R4 ;
.L_x_1:
        /*0020*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0030*/                   STS.64 [R2], R4 ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0050*/                   LDS.128 R4, [R2+0x10] ;
        /*0060*/                   MEMBAR.ALL.GPU ;
        /*0070*/                   REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R4 ;
        /*0080*/              @!P0 BRA `(.L_x_1) ;
        /*0090*/                   STG.E desc[UR4][R2.64], R4 ;
        /*00a0*/                   EXIT ;
.L_x_2:
        /*00b0*/                   BRA `(.L_x_2);
"""
TEXTS = {Stage.LLIR: LLIR, Stage.PTX: PTX, Stage.SASS: SASS}
# (stage, what is noise, the text with another spelling of it, the text with a true difference like it)
NOISE: list[tuple[Stage, str, tuple[str, str], tuple[str, str]]] = [
    (Stage.LLIR, "numbers of values", ("%4", "%44"), ("%3, 0", "%3, 1")),
    (
        Stage.LLIR,
        "debug locations",
        ("icmp slt i32 %1, 64", "icmp slt i32 %1, 64, !dbg !7"),
        ("%1, 64", "%1, 65"),
    ),
    (
        Stage.LLIR,
        "metadata",
        ("ret void\n}\n", "ret void\n}\n\n!1 = !{i32 2}\n"),
        ("ret void\n", "unreachable\n"),
    ),
    (Stage.LLIR, "attribute groups", ("barrier0()", "barrier0() #3"), ("barrier0()", "barrier1()")),
    (Stage.LLIR, "facts about values", ("icmp slt", "icmp samesign slt"), ("icmp slt", "icmp ult")),
    (Stage.LLIR, "calling convention", ("define void", "define ptx_kernel void"), ("i32 %1) {", "i64 %1) {")),
    (
        Stage.LLIR,
        "who comes before a block",
        ("8:\n", "8:            ; preds = %2\n"),
        ("8:\n", "8:\n  fence acq_rel\n"),
    ),
    (
        Stage.LLIR,
        "data layout",
        ("source_f", 'target datalayout = "e-p3:32:32"\nsource_f'),
        ("[0 x i8]", "[4 x i8]"),
    ),
    (Stage.PTX, "numbers of registers", ("%r2", "%r77"), ("%r2, [", "%r3, [")),
    (Stage.PTX, "numbers of labels", ("BB0_1", "BB0_12"), ("%p2 bra", "%p1 bra")),
    (
        Stage.PTX,
        "line information",
        ("	bar.sync", "	.loc	1 2 3\n	bar.sync"),
        ("bar.sync 	0", "bar.sync 	1"),
    ),
    (Stage.PTX, "labels for debuggers", ("	ret;", "$L__tmp3:\n	ret;"), ("	ret;", "	exit;")),
    (Stage.PTX, "comments", ("	// end inline asm", "	// end of it"), ("0x10", "0x8")),
    (Stage.PTX, "version", (".version 8.4", ".version 9.4"), ("setp.lt", "setp.le")),
    (Stage.PTX, "declared registers", ("%r<9>", "%r<99>"), ("s32", "u32")),
    (
        Stage.PTX,
        "facts about parameters",
        (".u64 _attn", ".u64 .ptr .global .align 1 _attn"),
        (".u64 _attn", ".u32 _attn"),
    ),
    (
        Stage.PTX,
        "spelling of the window",
        ("st.shared.", "st.shared::cta."),
        ("st.shared.v2", "st.shared.v4"),
    ),
    (Stage.SASS, "numbers of registers", ("R4", "R12"), ("R4 ;", "R5 ;")),
    (Stage.SASS, "addresses", ("/*0070*/", "/*0f70*/"), ("[R2+0x10]", "[R2+0x20]")),
    (Stage.SASS, "numbers of labels", ("L_x_1", "L_x_17"), ("@!P0 BRA", "@P0 BRA")),
    (
        Stage.SASS,
        "operand cache hints",
        ("desc[UR4][R2.64], R4 ;", "desc[UR4][R2.64], R4.reuse ;"),
        ("STG.E ", "STG.E.64 "),
    ),
    (
        Stage.SASS,
        "padding that never runs",
        ("        /*0060*/", "        /*0058*/              @!PT LDS RZ, [RZ] ;\n        /*0060*/"),
        ("c[0x0][0x28]", "c[0x0][0x30]"),
    ),
    (
        Stage.SASS,
        "control codes",
        ("EXIT ;\n", "EXIT ;      /* 0x000000000000794d */\n"),
        ("EXIT ;", "RET ;"),
    ),
]


@pytest.mark.parametrize(("stage", "kind", "noise", "truth"), NOISE, ids=[f"{n[0]}: {n[1]}" for n in NOISE])
def test_noise_is_no_difference_and_the_truth_is(
    stage: Stage, kind: str, noise: tuple[str, str], truth: tuple[str, str]
) -> None:
    text = TEXTS[stage]
    lines = plain_code(stage, text)
    for (old, new), is_same in ((noise, True), (truth, False)):
        assert old in text
        changed = plain_code(stage, text.replace(old, new))
        assert same_but_for_names(stage, lines, changed) is is_same, kind
    assert code_path(stage, plain_code(stage, text.replace(*noise)), False) == code_path(stage, lines, False)


PATHS = {
    Stage.LLIR: [
        "shared store 2 x 32 bit",
        "barrier",
        "shared load 4 x 32 bit",
        "atom.global.gpu.acq_rel.add.f32",
    ],
    Stage.PTX: [
        "shared store 2 x 32 bit",
        "barrier",
        "shared load 4 x 32 bit",
        "atom.global.gpu.acq_rel.add.f32",
    ],
    Stage.SASS: [
        "STS.64",
        "BAR.SYNC.DEFER_BLOCKING",
        "LDS.128",
        "MEMBAR.ALL.GPU",
        "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU",
    ],
}


@pytest.mark.parametrize("stage", TEXTS)
def test_dqs_path_runs_from_the_matrix_product_to_the_write_in_the_loop(stage: Stage) -> None:
    """What stands before the loop, and the stores of dK and dV after it, are not on it."""
    assert code_path(stage, plain_code(stage, TEXTS[stage]), False) == PATHS[stage]


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        (Stage.LLIR, "atom.global.gpu.acq_rel.add.f32", "red.global.gpu.relaxed.add.v4.f32"),
        (Stage.LLIR, "store <2 x float>", "store <4 x float>"),
        (Stage.LLIR, "tail call void @llvm.nvvm.barrier0()", "fence acq_rel"),
        (Stage.PTX, "atom.global", "red.global"),
        (Stage.PTX, "acq_rel", "relaxed"),
        (Stage.PTX, "ld.shared.v4.f32", "ld.shared.v2.f32"),
        (Stage.PTX, "	bar.sync", "	fence.acq_rel.gpu;\n	bar.sync"),
        (Stage.SASS, "REDG.E.ADD.F32", "ATOMG.E.ADD.F32x4"),
        (Stage.SASS, "        /*0080*/ ", "        /*0078*/   CCTL.IVALL ;\n        /*0080*/ "),
        (Stage.SASS, "MEMBAR.ALL.GPU", "MEMBAR.ALL.CTA"),
        (Stage.SASS, "LDS.128", "LDS.64"),
    ],
)
def test_width_order_fences_and_the_conversion_are_part_of_the_path(stage: Stage, old: str, new: str) -> None:
    assert old in TEXTS[stage]
    assert code_path(stage, plain_code(stage, TEXTS[stage].replace(old, new)), False) != PATHS[stage]


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        (
            Stage.LLIR,
            "store <2 x float> zeroinitializer, ptr addrspace(3) @global_smem, align 8",
            'tail call void asm sideeffect "@$3 st.shared.v2.b32 [ $0 + 0 ], { $1, $2 };", "r,r,r,b"()',
        ),
        (Stage.LLIR, "@llvm.nvvm.barrier0()", "@llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"),
        (Stage.PTX, "st.shared.v2.f32", "@%p9 st.shared.v2.b32"),
        (Stage.PTX, "@%p1 atom", "atom"),
        (Stage.SASS, "STS.64 [R2]", "STS.64 [R2+UR9+0xc000]"),
    ],
)
def test_another_way_to_say_the_same_is_no_difference_of_the_path(stage: Stage, old: str, new: str) -> None:
    assert old in TEXTS[stage]
    assert code_path(stage, plain_code(stage, TEXTS[stage].replace(old, new)), False) == PATHS[stage]


@pytest.mark.parametrize(
    ("stage", "store"),
    [(Stage.LLIR, "global store 1 x 32 bit"), (Stage.PTX, "st.global.b32"), (Stage.SASS, "STG.E")],
)
def test_in_a_kernel_that_makes_nothing_but_dq_every_store_is_its_write(stage: Stage, store: str) -> None:
    assert code_path(stage, plain_code(stage, TEXTS[stage]), True) == [*PATHS[stage], store]


@pytest.mark.parametrize("stage", TEXTS)
def test_a_reduction_outside_every_loop_is_dqs_if_there_is_none_inside(stage: Stage) -> None:
    branches = ("br i1 %7, label %2, label %8", "@%p2 bra 	$L__BB0_1;", "@!P0 BRA `(.L_x_1) ;")
    straight = TEXTS[stage]
    for branch in branches:
        straight = straight.replace(branch, "")
    assert code_path(stage, plain_code(stage, straight), False) == PATHS[stage]


@pytest.mark.parametrize("stage", TEXTS)
@pytest.mark.parametrize("text", ["", "no code at all", "\x00", "%", 'asm "', "@", "/*0000*/", ":", "!"])
def test_damaged_text_has_no_path_and_is_no_crash(stage: Stage, text: str) -> None:
    lines = plain_code(stage, text)
    assert code_path(stage, lines, False) == []
    assert same_but_for_names(stage, lines, lines)


@pytest.mark.parametrize(
    ("stage", "wait"),
    [
        (Stage.LLIR, "  tail call void @llvm.nvvm.cp.async.bulk.wait.group.read(i32 0)\n"),
        (Stage.PTX, "	cp.async.bulk.wait_group.read 0;\n"),
    ],
)
def test_waiting_for_a_bulk_reduction_counts_after_the_product_not_where_a_descriptor_is_made(
    stage: Stage, wait: str
) -> None:
    text = TEXTS[stage]
    label = {Stage.LLIR: "2:\n", Stage.PTX: "$L__BB0_1:\n"}[stage]
    end = {Stage.LLIR: "  %7 = icmp", Stage.PTX: "	setp"}[stage]
    before = plain_code(stage, text.replace(label, wait + label, 1))
    after = plain_code(stage, text.replace(end, wait + end))
    full = plain_code(stage, text.replace(end, wait.replace(".read", "") + end))
    assert code_path(stage, before, False) == PATHS[stage]
    assert len(code_path(stage, after, False)) == len(PATHS[stage]) + 1
    assert code_path(stage, after, False) != code_path(stage, full, False)
