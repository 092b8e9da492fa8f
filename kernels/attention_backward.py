"""Attention's backward pass: the one kernel under watch, and the kernels that make its inputs.

For one head, with scale s and row-wise log-sum-exp L:

    S = s Q K^T          P = exp(S - L)          O = P V
    dV = P^T dO          dP = dO V^T             D = rowsum(O * dO)
    dS = P * (dP - D)    dK = s dS^T Q           dQ = s dS K

One program owns a block of K and V and walks the blocks of Q, so dK and dV are sums in registers while
every program adds to the same dQ in global memory: that addition is what `dq_accumulation` varies.

Common to all kernels: tensors are contiguous [Z, H, N_CTX, HEAD_DIM] (rows: [Z, H, N_CTX] float32);
N_CTX is a multiple of every block size (`reference.pad_rows` pads; padding adds nothing to any
gradient, because padded rows of K, V and dO are zero and padded rows of M are +inf). M is kept in
powers of two, L / ln 2, because the hardware has exp2.
"""

import triton
import triton.language as tl

from kernels.dq_accumulation import accumulate_dq, close_dq, open_dq

RCP_LN2 = tl.constexpr(1.4426950408889634)  # 1 / ln(2): exp(x) == exp2(x * RCP_LN2)


@triton.jit
def _attn_fwd(
    Q, K, V, O, M,
    sm_scale, N_CTX, N_VALID,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """O and M of one block of Q rows. Keys at N_VALID and beyond are padding and are masked.

    Grid: (N_CTX / BLOCK_M, Z * H). Writes M = +inf in padded rows, so that the backward's P is 0 there.
    """
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64) * N_CTX
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    qk_scale = sm_scale * RCP_LN2

    q = tl.load(Q + (head + offs_m)[:, None] * HEAD_DIM + offs_d[None, :])
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    hi = N_CTX
    if CAUSAL:
        hi = start_m + BLOCK_M
    for start_n in range(0, hi, BLOCK_N):
        rows_n = start_n + offs_n
        kT = tl.load(K + (head + rows_n)[None, :] * HEAD_DIM + offs_d[:, None])
        v = tl.load(V + (head + rows_n)[:, None] * HEAD_DIM + offs_d[None, :])
        qk = tl.dot(q, kT) * qk_scale
        keep = rows_n[None, :] < N_VALID
        if CAUSAL:
            keep = keep & (rows_n[None, :] <= offs_m[:, None])
        qk = tl.where(keep, qk, -float("inf"))
        # Block 0 holds key 0, which every row keeps, so m_new is finite from the first turn on.
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp2(qk - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new

    o = acc / l_i[:, None]
    tl.store(O + (head + offs_m)[:, None] * HEAD_DIM + offs_d[None, :], o.to(O.dtype.element_ty))
    m = tl.where(offs_m < N_VALID, m_i + tl.log2(l_i), float("inf"))
    tl.store(M + head + offs_m, m)


@triton.jit
def _attn_bwd_preprocess(O, DO, D, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr):
    """D = rowsum(O * dO). Grid: (N_CTX / BLOCK_M, Z * H)."""
    rows = tl.program_id(1).to(tl.int64) * N_CTX + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    o = tl.load(O + offs).to(tl.float32)
    do = tl.load(DO + offs).to(tl.float32)
    tl.store(D + rows, tl.sum(o * do, 1))


@triton.jit
def _attn_bwd_convert_dq(DQ_ACC, DQ, sm_scale, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr):
    """dQ in the input dtype from its float32 sum, with the softmax scale. Grid: (N_CTX / BLOCK_M, Z * H)."""
    rows = tl.program_id(1).to(tl.int64) * N_CTX + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(DQ + offs, (tl.load(DQ_ACC + offs) * sm_scale).to(DQ.dtype.element_ty))


@triton.jit
def _attn_bwd_inner(
    dk, dv, dq_kept, k, v, Q, DO, M, D, dq_target,
    start_n, lo, hi, qk_scale,
    HEAD_DIM: tl.constexpr, BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr,
    MASK: tl.constexpr, DQ_REDUCTION: tl.constexpr,
):  # fmt: skip
    """Add the Q rows lo..hi to dk, dv (registers) and dQ (global). MASK: the block crosses the diagonal.

    All pointers are one head's. k, v: [BLOCK_N1, HEAD_DIM]; dk, dv the same in float32.
    """
    offs_n = start_n + tl.arange(0, BLOCK_N1)
    offs_d = tl.arange(0, HEAD_DIM)
    for start_m in range(lo, hi, BLOCK_M1):
        offs_m = start_m + tl.arange(0, BLOCK_M1)
        qT = tl.load(Q + offs_m[None, :] * HEAD_DIM + offs_d[:, None])
        m = tl.load(M + offs_m)
        pT = tl.exp2(tl.dot(k, qT) * qk_scale - m[None, :])
        if MASK:
            pT = tl.where(offs_m[None, :] >= offs_n[:, None], pT, 0.0)
        do = tl.load(DO + offs_m[:, None] * HEAD_DIM + offs_d[None, :])
        dv = tl.dot(pT.to(do.dtype), do, dv)
        Di = tl.load(D + offs_m)
        dpT = tl.dot(v, tl.trans(do))
        dsT = (pT * (dpT - Di[None, :])).to(do.dtype)
        dk = tl.dot(dsT, tl.trans(qT), dk)
        dq_kept = accumulate_dq(dq_target, dq_kept, dsT, k, start_m, HEAD_DIM, BLOCK_M1, DQ_REDUCTION)
    return dk, dv, dq_kept


@triton.jit
def _attn_bwd(
    Q, K, V, DO, DQ, DK, DV, M, D,
    sm_scale, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr,
    CAUSAL: tl.constexpr, DQ_REDUCTION: tl.constexpr,
):  # fmt: skip
    """dK, dV of one block of K rows, and its addition to dQ by DQ_REDUCTION.

    Grid: (N_CTX / BLOCK_N1, Z * H). DQ: float32, zeroed by the caller, without the softmax scale; the
    other gradients are in the input dtype and complete. BLOCK_M1 must divide BLOCK_N1.
    """
    tl.static_assert(BLOCK_N1 % BLOCK_M1 == 0)
    start_n = tl.program_id(0) * BLOCK_N1
    head = tl.program_id(1).to(tl.int64) * N_CTX
    Q += head * HEAD_DIM
    K += head * HEAD_DIM
    V += head * HEAD_DIM
    DO += head * HEAD_DIM
    M += head
    D += head
    dq_target = open_dq(DQ + head * HEAD_DIM, N_CTX, HEAD_DIM, BLOCK_M1, DQ_REDUCTION)
    qk_scale = sm_scale * RCP_LN2

    offs = (start_n + tl.arange(0, BLOCK_N1))[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    k = tl.load(K + offs)
    v = tl.load(V + offs)
    dk = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    dq_kept = tl.zeros([BLOCK_M1, HEAD_DIM], dtype=tl.float32)

    lo = 0
    if CAUSAL:
        # Rows before the block see none of its keys; rows inside it see some: the masked part.
        lo = start_n + BLOCK_N1
        dk, dv, dq_kept = _attn_bwd_inner(
            dk, dv, dq_kept, k, v, Q, DO, M, D, dq_target,
            start_n, start_n, lo, qk_scale,
            HEAD_DIM, BLOCK_M1, BLOCK_N1, True, DQ_REDUCTION,
        )  # fmt: skip
    dk, dv, dq_kept = _attn_bwd_inner(
        dk, dv, dq_kept, k, v, Q, DO, M, D, dq_target,
        start_n, lo, N_CTX, qk_scale,
        HEAD_DIM, BLOCK_M1, BLOCK_N1, False, DQ_REDUCTION,
    )  # fmt: skip
    close_dq(dq_target, dq_kept, HEAD_DIM, BLOCK_M1, DQ_REDUCTION)

    tl.store(DK + head * HEAD_DIM + offs, (dk * sm_scale).to(DK.dtype.element_ty))
    tl.store(DV + head * HEAD_DIM + offs, dv.to(DV.dtype.element_ty))


@triton.jit
def _attn_bwd_dq_inner(
    dq, q, do, m, Di, K, V,
    start_m, lo, hi, qk_scale,
    HEAD_DIM: tl.constexpr, BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    """Add the K rows lo..hi to dq [BLOCK_M2, HEAD_DIM], which stays in registers."""
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    offs_d = tl.arange(0, HEAD_DIM)
    for start_n in range(lo, hi, BLOCK_N2):
        offs_n = start_n + tl.arange(0, BLOCK_N2)
        kT = tl.load(K + offs_n[None, :] * HEAD_DIM + offs_d[:, None])
        vT = tl.load(V + offs_n[None, :] * HEAD_DIM + offs_d[:, None])
        p = tl.exp2(tl.dot(q, kT) * qk_scale - m[:, None])
        if MASK:
            p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        ds = (p * (tl.dot(do, vT) - Di[:, None])).to(q.dtype)
        dq = tl.dot(ds, tl.trans(kT), dq)
    return dq


@triton.jit
def _attn_bwd_dq(
    Q, K, V, DO, DQ, M, D,
    sm_scale, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """two_pass's second kernel: dQ of one block of Q rows, complete, no atomics.

    Grid: (N_CTX / BLOCK_M2, Z * H). DQ: float32, without the softmax scale, like _attn_bwd's.
    BLOCK_N2 must divide BLOCK_M2.
    """
    tl.static_assert(BLOCK_M2 % BLOCK_N2 == 0)
    start_m = tl.program_id(0) * BLOCK_M2
    head = tl.program_id(1).to(tl.int64) * N_CTX
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    offs = (head + offs_m)[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    K += head * HEAD_DIM
    V += head * HEAD_DIM
    qk_scale = sm_scale * RCP_LN2

    q = tl.load(Q + offs)
    do = tl.load(DO + offs)
    m = tl.load(M + head + offs_m)
    Di = tl.load(D + head + offs_m)
    dq = tl.zeros([BLOCK_M2, HEAD_DIM], dtype=tl.float32)
    hi = N_CTX
    if CAUSAL:
        hi = start_m
        dq = _attn_bwd_dq_inner(
            dq, q, do, m, Di, K, V, start_m, start_m, start_m + BLOCK_M2, qk_scale,
            HEAD_DIM, BLOCK_M2, BLOCK_N2, True,
        )  # fmt: skip
    dq = _attn_bwd_dq_inner(
        dq, q, do, m, Di, K, V, start_m, 0, hi, qk_scale,
        HEAD_DIM, BLOCK_M2, BLOCK_N2, False,
    )  # fmt: skip
    tl.store(DQ + offs, dq)
