"""Runs the kernels on the CPU, by Triton's interpreter. A program, because the interpreter must be chosen
before Triton is imported, and other tests of the same run compile for real:

    TRITON_INTERPRET=1 python interpreted.py IN.npz OUT.npz

IN: q, k, v, do [Z, H, N, HEAD_DIM] and the words dtype, causal. OUT: o like them, m of all rows with
padding, and of every variant dq, dk, dv ("atomic_add.dq", ...); or "inline_asm.refused", the interpreter's
message; or "descriptor_add.missing", why this Triton has no such operation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

from kernels import attention_backward as kernels
from kernels import compat, dq_accumulation
from kernels.launch_configs import BACKWARD, BACKWARD_DQ, FORWARD, ROWWISE
from kernels.reference import pad_rows, softmax_scale
from kernels.variants import Variant


class DType:
    """A dtype whose text is a name that Triton knows; releases before 3.3 take no plain str."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


FLOAT16, FLOAT32, BFLOAT16 = DType("float16"), DType("float32"), DType("bfloat16")


class Tensor:
    """The part of a torch tensor that the interpreter uses, over a numpy array. It is its own storage.

    bfloat16 is held as its 16 bits, which is also how the interpreter holds it.
    """

    def __init__(self, array: np.ndarray, dtype: DType) -> None:
        self.array = np.ascontiguousarray(array)
        self.dtype = dtype
        self.shape = self.array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.array.copy(), self.dtype)

    def copy_(self, other: Tensor) -> None:
        self.array[...] = other.array

    def new_empty(self, _size: int, device: str) -> Tensor:
        return Tensor(np.empty(0, self.array.dtype), self.dtype)

    def set_(self, storage: Tensor, *_geometry: object) -> None:
        self.array, self.shape = storage.array, storage.shape

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def element_size(self) -> int:
        return self.array.itemsize


def to_bits(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, rounded to the nearest, ties to even. NaN stays NaN."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def from_bits(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def tensor(x: np.ndarray, dtype: str) -> Tensor:
    if dtype == "bf16":
        return Tensor(to_bits(x), BFLOAT16)
    return Tensor(x.astype(np.float16), FLOAT16) if dtype == "fp16" else Tensor(x.astype(np.float32), FLOAT32)


def values(t: Tensor) -> np.ndarray:
    return from_bits(t.array) if t.dtype is BFLOAT16 else t.array.astype(np.float32)


def teach_bfloat16_products() -> None:
    """The interpreter of every release up to 3.9 multiplies the bits of bfloat16 as if they were integers:
    hand its matrix product the numbers instead."""
    plain = interpreter.InterpreterBuilder.create_dot

    def number(handle: interpreter.TensorHandle) -> interpreter.TensorHandle:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return interpreter.TensorHandle(from_bits(handle.data), tl.float32)

    def create_dot(self: object, a: object, b: object, *rest: object) -> object:
        return plain(self, number(a), number(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def teach_descriptor_reduction() -> None:
    """The interpreter knows tensor descriptors, but none of their reductions: add the one that we use.

    It also replaces Triton's functions where they stand in `tl`, so the kernel's name must lead there.
    """

    def create_descriptor_reduce(
        self: object, _kind: object, descriptor: object, value: object, at: list
    ) -> object:
        pointers, mask = descriptor.materialize_pointers(at)
        add, relaxed, gpu = ir.ATOMIC_OP.FADD, ir.MEM_SEMANTIC.RELAXED, ir.MEM_SYNC_SCOPE.GPU
        return self.create_atomic_rmw(add, pointers, value, mask, relaxed, gpu)

    interpreter.InterpreterBuilder.create_descriptor_reduce = create_descriptor_reduce
    dq_accumulation.make_tensor_descriptor = lambda *args, **kwargs: tl.make_tensor_descriptor(
        *args, **kwargs
    )


class Attention:
    """One problem's tensors, padded; every output is full of NaN until its kernel writes it."""

    def __init__(self, inputs: dict[str, np.ndarray]) -> None:
        self.dtype, self.causal = str(inputs["dtype"]), bool(inputs["causal"])
        self.q, self.k, self.v, self.do = (
            tensor(pad_rows(inputs[name]), self.dtype) for name in ("q", "k", "v", "do")
        )
        self.n_valid = inputs["q"].shape[2]
        self.batch, self.heads, self.n_ctx, self.head_dim = self.q.shape
        self.scale = softmax_scale(self.head_dim)
        self.o, self.m, self.d = self.poisoned(), self.poisoned_rows(), self.poisoned_rows()

    def poisoned(self) -> Tensor:
        return tensor(np.full(self.q.shape, np.nan), self.dtype)

    def poisoned_rows(self) -> Tensor:
        return tensor(np.full(self.q.shape[:3], np.nan), "fp32")

    def valid(self, t: Tensor) -> np.ndarray:
        return values(t)[:, :, : self.n_valid]

    def grid(self, rows_per_program: int) -> tuple[int, int]:
        return (self.n_ctx // rows_per_program, self.batch * self.heads)

    def forward(self) -> None:
        config = FORWARD[self.head_dim]
        kernels._attn_fwd[self.grid(config.block_m)](
            self.q, self.k, self.v, self.o, self.m, self.scale, self.n_ctx, self.n_valid,
            HEAD_DIM=self.head_dim, BLOCK_M=config.block_m, BLOCK_N=config.block_n, CAUSAL=self.causal,
        )  # fmt: skip
        kernels._attn_bwd_preprocess[self.grid(ROWWISE.block_m)](
            self.o, self.do, self.d, self.n_ctx, HEAD_DIM=self.head_dim, BLOCK_M=ROWWISE.block_m
        )

    def backward(self, variant: Variant) -> dict[str, np.ndarray]:
        two_pass = variant is Variant.TWO_PASS
        config = BACKWARD[self.head_dim]
        # The second pass writes all of dQ, so its zeros are not needed: NaN shows a row that it left out.
        start = np.nan if two_pass else 0.0
        dq_sum = tensor(np.full(self.q.shape, start), "fp32")
        dq, dk, dv = self.poisoned(), self.poisoned(), self.poisoned()
        kernels._attn_bwd[self.grid(config.block_n)](
            self.q, self.k, self.v, self.do, dq_sum, dk, dv, self.m, self.d, self.scale, self.n_ctx,
            HEAD_DIM=self.head_dim, BLOCK_M1=config.block_m, BLOCK_N1=config.block_n, CAUSAL=self.causal,
            DQ_REDUCTION=Variant.NONE.value if two_pass else variant.value,
        )  # fmt: skip
        if two_pass:
            config = BACKWARD_DQ[self.head_dim]
            kernels._attn_bwd_dq[self.grid(config.block_m)](
                self.q, self.k, self.v, self.do, dq_sum, self.m, self.d, self.scale, self.n_ctx,
                HEAD_DIM=self.head_dim, BLOCK_M2=config.block_m, BLOCK_N2=config.block_n, CAUSAL=self.causal,
            )  # fmt: skip
        kernels._attn_bwd_convert_dq[self.grid(ROWWISE.block_m)](
            dq_sum, dq, self.scale, self.n_ctx, HEAD_DIM=self.head_dim, BLOCK_M=ROWWISE.block_m
        )
        return {"dq": self.valid(dq), "dk": self.valid(dk), "dv": self.valid(dv)}


def main(source: Path, target: Path) -> None:
    teach_bfloat16_products()
    teach_descriptor_reduction()
    problem = Attention(dict(np.load(source)))
    problem.forward()
    results = {"o": problem.valid(problem.o), "m": values(problem.m)}
    for variant in Variant:
        if reason := compat.missing_feature(variant.value):
            results[f"{variant.value}.missing"] = np.array(reason)
            continue
        try:
            gradients = problem.backward(variant)
        except Exception as error:  # noqa: BLE001 - what the interpreter raises is the result
            results[f"{variant.value}.refused"] = np.array(f"{type(error).__name__}: {error}")
        else:
            results |= {f"{variant.value}.{name}": array for name, array in gradients.items()}
    np.savez(target, **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
