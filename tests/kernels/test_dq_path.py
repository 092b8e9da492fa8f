"""dQ's path through the IRs and its writes in PTX, on trimmed texts of real compilations."""

from kernels.codegen import measure
from kernels.dq_path import PtxWrite, conversions_per_tile, count_ir_ops, dq_path, ptx_dq_writes

LAUNCH = {"num_warps": 8, "shared_memory_bytes": 0, "registers": 64}

# Two loops (sibling regions) that print the same names for different operations; dQ is converted once
# more in the second. The conversion of dK at the end, and the one of P in the loop, are not on dQ's path.
TTGIR = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [8, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 2], instrShape = [16, 32, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
  tt.func public @_attn_bwd(%arg0: !tt.ptr<f32>) {
    %cst = arith.constant dense<0.0> : tensor<64x64xf32, #mma> loc(#loc1)
    %81:2 = scf.for %arg11 = %1 to %43 step %c64 iter_args(%arg12 = %cst, %arg13 = %cst) -> (i32, i32)  : i32 {
      %100 = ttg.convert_layout %99 : tensor<128x64xf16, #mma> -> tensor<128x64xf16, #blocked> loc(#loc2)
      %101 = ttng.warp_group_dot %100, %37, %cst : tensor<64x64xf32, #mma> loc(#loc2)
      %102:2 = ttng.warp_group_dot_wait %101, %37 {pendings = 0 : i32} : tensor<64x64xf32, #mma> loc(#loc2)
      %103 = ttg.convert_layout %102#0 : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked> loc(#loc2)
      %104 = tt.atomic_rmw fadd, acq_rel, gpu, %ptrs, %103, %true : (tensor<64x64x!tt.ptr<f32>, #blocked>, tensor<64x64xf32, #blocked>, tensor<64x64xi1, #blocked>) -> tensor<64x64xf32, #blocked> loc(#loc2)
      scf.yield %102#0, %104 : i32, i32
    }
    %109:2 = scf.for %arg11 = %43 to %arg10 step %c64 iter_args(%arg12 = %81#0, %arg13 = %81#1) -> (i32, i32)  : i32 {
      %100 = ttng.warp_group_dot %36, %37, %cst : tensor<64x64xf32, #mma> loc(#loc3)
      %101:2 = ttng.warp_group_dot_wait %100, %37 {pendings = 0 : i32} : tensor<64x64xf32, #mma> loc(#loc3)
      %102 = ttg.convert_layout %101#0 : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked> loc(#loc3)
      %103 = ttg.convert_layout %102 : tensor<64x64xf32, #blocked> -> tensor<64x64xf32, #blocked> loc(#loc3)
      %104 = tt.atomic_rmw fadd, acq_rel, gpu, %ptrs, %103, %true : (tensor<64x64x!tt.ptr<f32>, #blocked>, tensor<64x64xf32, #blocked>, tensor<64x64xi1, #blocked>) -> tensor<64x64xf32, #blocked> loc(#loc3)
      scf.yield %101#0, %104 : i32, i32
    }
    %118 = ttg.convert_layout %109#0 : tensor<128x64xf16, #mma> -> tensor<128x64xf16, #blocked>
    tt.store %dk, %118 : tensor<128x64x!tt.ptr<f16>, #blocked>
"""  # noqa: E501 - MLIR's own lines

DESCRIPTOR = """\
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
    %buffer = ttg.local_alloc : () -> !ttg.memdesc<64x64xf32, #shared, #smem, mutable>
    %other = ttg.local_alloc : () -> !ttg.memdesc<64x64xf32, #shared, #smem, mutable>
      %q = ttg.convert_layout %q0 : tensor<64x64xf16, #mma> -> tensor<64x64xf16, #blocked>
      %176 = ttng.warp_group_dot %175, %36, %cst : tensor<64x64xf32, #mma1>
      %177:2 = ttng.warp_group_dot_wait %176, %36 {pendings = 0 : i32} : tensor<64x64xf32, #mma1>
      ttg.local_store %177#0, %buffer : tensor<64x64xf32, #mma1> -> !ttg.memdesc<64x64xf32, #shared>
      ttg.local_store %q, %other : tensor<64x64xf16, #blocked> -> !ttg.memdesc<64x64xf16, #shared>
      ttng.async_tma_reduce add, %16[%129, %c0] %buffer : !tt.tensordesc<64x64xf32, #shared>, !ttg.memdesc<64x64xf32, #shared>
"""  # noqa: E501

PTX = """\
.visible .entry k(
	.param .u64 k_param_0
)
{
	st.shared.v4.b32 	[%r121], {%r68, %r69, %r70, %r71};
	@%p2 bra 	$L__BB0_3;
$L__BB0_2:                              // st.global.b32 comes later
	// begin inline asm
	@%p3 atom.global.gpu.acq_rel.add.v4.f32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ], { %r5, %r6, %r7, %r8 };
	// end inline asm
	ld.global.b32 %r9, [%rd2];
	@%p4 bra 	$L__BB0_2;
$L__BB0_3:
$L__BB0_4:
	st.global.v2.b32 	[%rd3], {%r1, %r2};
	{ red.global.add.f32 [%rd4], %r3; mov.u32 %r354, 0; }
	@%p5 bra.uni 	$L__BB0_4;
	st.global.v4.b32 	[%rd5], {%r1, %r2, %r3, %r4};
	red.global.add.v2.f32 [%rd6], {%r336, %r337};
	ret;
}
"""
BULK_OPCODE = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"
BULK = f"\t@%p6 {BULK_OPCODE} [%rd9, {{%r372, %r373}}], [%r374];\n"


def stages(ttgir: str = "", ptx: str = "", llir: str = "") -> dict[str, str]:
    sass = "        /*0000*/                   EXIT ;"
    return {"ttir": "", "ttgir": ttgir, "llir": llir, "ptx": ptx, "sass": sass}


def path_in(ttgir: str) -> dict[str, int]:
    return dq_path(stages(ttgir), False)["ttgir"]


def vector_width(ptx: str) -> int | None:
    return measure(stages(ptx=ptx), LAUNCH, 90, 4096, False)["metrics"]["dq_vector_width"]


def test_path_from_the_product_to_the_atomic() -> None:
    assert path_in(TTGIR) == {
        "tt.atomic_rmw fadd acq_rel gpu blocked(sizePerThread = [1, 4])": 2,
        "ttg.convert_layout": 3,
        "ttng.warp_group_dot": 2,
        "ttng.warp_group_dot_wait": 2,
    }
    assert conversions_per_tile(TTGIR) == 1.5
    assert count_ir_ops(TTGIR, "ttg.convert_layout") == 5
    assert measure(stages(TTGIR), LAUNCH, 90, 4096, False)["metrics"]["dq_layout_conversions"] == 1.5


def test_old_dialects_are_the_same_path() -> None:
    old = TTGIR.replace("ttng.warp_group_dot_wait", "triton_nvidia_gpu.dot_wait")
    old = old.replace("ttng.warp_group_dot", "triton_nvidia_gpu.dot_async").replace("ttg.", "triton_gpu.")
    assert path_in(old) == path_in(TTGIR)
    assert conversions_per_tile(old) == 1.5
    assert count_ir_ops(old, "ttg.convert_layout") == 5


def test_names_and_places_do_not_matter() -> None:
    other = TTGIR.replace("%10", "%dq_20").replace("loc(#loc2)", 'loc("elsewhere.py":1:2)')
    assert path_in(other) == path_in(TTGIR)


def test_relaxed_is_another_write() -> None:
    assert "tt.atomic_rmw fadd relaxed gpu blocked(sizePerThread = [1, 4])" in path_in(
        TTGIR.replace("acq_rel", "relaxed")
    )


def test_bulk_reduction_goes_through_its_own_shared_memory() -> None:
    assert path_in(DESCRIPTOR) == {
        "ttg.local_alloc": 1,
        "ttg.local_store": 1,
        "ttng.async_tma_reduce": 1,
        "ttng.warp_group_dot": 1,
        "ttng.warp_group_dot_wait": 1,
    }
    assert conversions_per_tile(DESCRIPTOR) == 0


def test_inline_assembly_is_a_write_only_if_it_reduces() -> None:
    line = (
        '  %5 = tt.elementwise_inline_asm "{} [$2], {{$4, $5}};" {{packed_element = 2 : i32}} %3, %4#0 : '
        "tensor<64x64xi64, #mma>, tensor<64x64xf32, #mma> -> tensor<64x64xi32, #mma>\n"
    )
    layout = "#mma = #ttg.nvidia_mma<{instrShape = [16, 32, 16]}>\n"
    found = path_in(layout + line.format("red.global.add.v2.f32"))
    assert found == {
        "tt.elementwise_inline_asm red.global.add.v2.f32 nvidia_mma(instrShape = [16, 32, 16])": 1
    }
    assert path_in(layout + line.format("ex2.approx.f32")) == {}


def test_float32_store_is_dqs() -> None:
    assert path_in("  tt.store %5, %6 : tensor<64x64x!tt.ptr<f32>, #blocked>") == {"tt.store": 1}
    assert path_in("  tt.store %5, %6 : tensor<64x64x!tt.ptr<f16>, #blocked>") == {}
    assert conversions_per_tile("") == 0


def test_ptx_writes_and_their_loops() -> None:
    assert ptx_dq_writes(PTX, False) == [
        PtxWrite("atom.global.gpu.acq_rel.add.v4.f32", 0),
        PtxWrite("st.global.v2.b32", 1),
        PtxWrite("red.global.add.f32", 1),
        PtxWrite("red.global.add.v2.f32", None),
    ]
    # The store of dK, outside, is dQ's in a kernel that makes nothing else.
    assert next(w.opcode for w in ptx_dq_writes(PTX, True) if w.loop is None) == "st.global.v4.b32"
    assert [w.width for w in ptx_dq_writes(PTX, True)] == [4, 2, 1, 4, 2]


def test_metrics_of_ptx_writes() -> None:
    metrics = measure(stages(ptx=PTX), LAUNCH, 90, 4096, False)["metrics"]
    assert (metrics["dq_writes"], metrics["dq_acq_rel"], metrics["dq_vector_width"]) == (4, 1, 1)


def test_width_is_that_of_the_narrowest_write() -> None:
    wide = "\tred.global.add.v4.f32 [%rd6], {%r1, %r2, %r3, %r4};\n"
    assert vector_width(wide) == 4
    assert vector_width(wide + "\tred.global.add.v2.f32 [%rd6], {%r336, %r337};\n") == 2
    assert vector_width(wide + "\tred.global.add.f32 [%rd6], %r336;\n") == 1
    assert vector_width("\tret;\n") is None


def test_bulk_reductions_of_a_loop_share_its_tile() -> None:
    def loop(label: str, body: str) -> str:
        return f"$L{label}:\n{body}\t@%p1 bra \t$L{label};\n"

    assert ptx_dq_writes(loop("1", BULK), False) == [PtxWrite(BULK_OPCODE, 0)]
    assert vector_width(loop("1", BULK) + loop("2", BULK)) == 4096
    assert vector_width(loop("1", BULK + BULK) + loop("2", BULK + BULK)) == 2048


def test_llir_names_writes_in_and_out_of_inline_assembly() -> None:
    llir = """\
  %4 = tail call float asm sideeffect "mov.u32 $0, 0;\\0A@$3 atom.global.gpu.acq_rel.add.f32 $0, [ $1 + 0 ];"
  tail call void asm sideeffect "st.global.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %5)
  tail call void asm sideeffect "st.shared.v4.b32 [ $4 + 0 ], { $0, $1, $2, $3 };", "r,r,r,r,l"(i32 %5)
  %7 = atomicrmw fadd ptr addrspace(1) %6, float %5 syncscope("device") acq_rel, align 4
  store float %8, ptr addrspace(1) %6, align 4
  store float %8, ptr addrspace(3) %9, align 4
"""
    assert dq_path(stages(llir=llir), False)["llir"] == {
        "atom.global.gpu.acq_rel.add.f32": 1,
        "atomicrmw fadd": 1,
        "st.global.v4.b32": 1,
        "store float": 1,
    }
