"""Every way to sum a tile of dQ into global memory: one short device helper a variant.

Nothing outside this file depends on the switch `DQ_REDUCTION`. Inline assembly takes no mask, so the
helpers do not either: callers pad rows to a whole number of tiles (`reference.pad_rows`).
"""

import triton
import triton.language as tl

from kernels.compat import make_tensor_descriptor


@triton.jit
def _red_scalar(ptrs, dq):
    """One `red` a float, in whatever layout dq has: no layout conversion is needed.

    Declared impure, or it would be removed as dead: the operation needs a result, and nobody reads it.
    """
    tl.inline_asm_elementwise(
        "red.global.add.f32 [$1], $2; mov.u32 $0, 0;",
        "=r,l,f",
        [ptrs.to(tl.int64), dq],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def _red_v2(ptrs, dq):
    """One `red.v2` for two neighbours of a row: a thread of the matrix unit holds them in pairs.

    `pack=2` hands over two elements: $2 and $3 are their addresses (the second, one float on, is not
    needed), $4 and $5 the values.
    """
    tl.inline_asm_elementwise(
        "red.global.add.v2.f32 [$2], {$4, $5}; mov.u32 $0, 0; mov.u32 $1, 0;",
        "=r,=r,l,l,f,f",
        [ptrs.to(tl.int64), dq],
        dtype=tl.int32,
        is_pure=False,
        pack=2,
    )


@triton.jit
def open_dq(DQ, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, DQ_REDUCTION: tl.constexpr):
    """What `accumulate_dq` writes through: a tensor descriptor of one head's dQ, or its plain pointer.

    DQ points at [N_CTX, HEAD_DIM] float32, contiguous.
    """
    if DQ_REDUCTION == "descriptor_add":
        target = make_tensor_descriptor(
            DQ, shape=[N_CTX, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_M, HEAD_DIM]
        )
    else:
        target = DQ
    return target


@triton.jit
def _dq_ptrs(DQ, start_m, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr):
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    return DQ + offs_m[:, None] * HEAD_DIM + offs_d[None, :]


@triton.jit
def accumulate_dq(
    target,
    dq_kept,
    dsT,
    k,
    start_m,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    DQ_REDUCTION: tl.constexpr,
):
    """dQ[start_m : start_m + BLOCK_M] += dS K, without the softmax scale (it is applied once, at the end).

    dsT: [BLOCK_N, BLOCK_M], k: [BLOCK_N, HEAD_DIM], both in the input dtype. Returns `dq_kept`
    [BLOCK_M, HEAD_DIM] float32: changed only by none_keep_dq, where it keeps the product alive.
    """
    if DQ_REDUCTION == "none_keep_dq":
        dq_kept = tl.dot(tl.trans(dsT), k, dq_kept)
    elif DQ_REDUCTION != "none":
        dq = tl.dot(tl.trans(dsT), k)
        if DQ_REDUCTION == "descriptor_add":
            target.atomic_add([start_m, 0], dq)
        else:
            ptrs = _dq_ptrs(target, start_m, HEAD_DIM, BLOCK_M)
            if DQ_REDUCTION == "atomic_add":
                tl.atomic_add(ptrs, dq)
            elif DQ_REDUCTION == "atomic_add_relaxed":
                tl.atomic_add(ptrs, dq, sem="relaxed")
            elif DQ_REDUCTION == "inline_asm":
                _red_scalar(ptrs, dq)
            elif DQ_REDUCTION == "inline_asm_v2":
                _red_v2(ptrs, dq)
            else:
                tl.static_assert(DQ_REDUCTION == "store", "unknown DQ_REDUCTION")
                tl.store(ptrs, dq)
    return dq_kept


@triton.jit
def close_dq(target, dq_kept, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, DQ_REDUCTION: tl.constexpr):
    """After the loop: none_keep_dq writes its sum once, racily, so that the products are not dead code."""
    if DQ_REDUCTION == "none_keep_dq":
        tl.store(_dq_ptrs(target, 0, HEAD_DIM, BLOCK_M), dq_kept)
