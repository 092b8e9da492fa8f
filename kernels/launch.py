"""Load stored cubins and launch them with cuda.core. Triton need not be installed.

One `Gpu` is one device of this process. A `LoadedKernel` knows from its launch metadata what Triton's
own launcher would do: hidden scratch parameters, dynamic shared memory, cluster, block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Buffer, Device, EventOptions, Kernel, LaunchConfig, ObjectCode, Stream, launch

# What a block gets without asking for more (CUDA C++ Programming Guide, cudaFuncSetAttribute).
_DEFAULT_SHARED_BYTES = 48 * 1024
_SCALARS = {"i32": np.int32, "i64": np.int64, "fp32": np.float32}


class LaunchError(RuntimeError):
    """A kernel cannot be loaded or launched on this device; the message says which and why."""


class OutOfMemoryError(LaunchError):
    """The GPU has not enough free memory."""


class Gpu:
    """A device, current in this process, with one stream. ``uuid`` (as nvidia-smi prints it) or the first.

    Raises LaunchError if there is no driver or no such device.
    """

    def __init__(self, uuid: str | None = None) -> None:
        try:
            devices = Device.get_all_devices()
        except Exception as error:  # cuda.core raises its own kinds, and OSError for a missing driver
            raise LaunchError(f"no NVIDIA driver or no GPU: {error}") from error
        wanted = [d for d in devices if uuid is None or str(d.uuid) == uuid.removeprefix("GPU-")]
        if not wanted:
            raise LaunchError(f"no GPU {uuid or ''} on this machine")
        self.device = wanted[0]
        self.device.set_current()
        self.stream: Stream = self.device.create_stream()
        self.compute_capability = (
            self.device.compute_capability.major * 10 + self.device.compute_capability.minor
        )

    def allocate(self, size: int) -> Buffer:
        """Uninitialised device memory. Raises OutOfMemoryError if there is not enough."""
        try:
            return self.device.allocate(size, stream=self.stream)
        except Exception as error:
            raise OutOfMemoryError(f"cannot allocate {size / 1e9:.2f} GB of GPU memory: {error}") from error

    def upload(self, array: np.ndarray) -> Buffer:
        """A device copy of a contiguous host array."""
        buffer = self.allocate(array.nbytes)
        _check(driver.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, array.nbytes))
        return buffer

    def download(self, buffer: Buffer, dtype: Any, shape: Sequence[int], offset: int = 0) -> np.ndarray:
        """A host copy of ``shape`` elements, ``offset`` bytes into the buffer. Waits for the stream."""
        array = np.empty(shape, dtype)
        self.stream.sync()
        _check(driver.cuMemcpyDtoH(array.ctypes.data, int(buffer.handle) + offset, array.nbytes))
        return array

    def timing_event(self) -> Any:
        return self.device.create_event(EventOptions(timing_enabled=True))


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel on the device, ready to be launched on any number of rows."""

    kernel: Kernel
    code: ObjectCode  # owns the kernel's memory
    launch: dict[str, Any]
    signature: list[list[str]]  # [name, type] of the run-time arguments, in order

    @classmethod
    def load(cls, gpu: Gpu, cubin: bytes, entry: dict[str, Any]) -> LoadedKernel:
        """``entry``: a kernel of an evidence record. Raises LaunchError.

        The cubin's hash is checked first: the driver reads past the end of one that was cut short, and
        the process dies (seen with driver 580).
        """
        meta = entry["launch"]
        if hashlib.sha256(cubin).hexdigest() != entry["objects"]["cubin"]:
            raise LaunchError(f"{meta['kernel_name']}: the cubin is not the one of its record")
        if int(meta["target"].removeprefix("cuda:")) != gpu.compute_capability:
            raise LaunchError(
                f"{meta['kernel_name']} is for {meta['target']}, this GPU is cuda:{gpu.compute_capability}"
            )
        if meta["cooperative_grid"] or meta["programmatic_dependent_launch"] or meta["tensor_memory_bytes"]:
            raise LaunchError(f"{meta['kernel_name']} needs a kind of launch that is not supported: {meta}")
        try:
            code = ObjectCode.from_cubin(cubin)
            kernel = code.get_kernel(meta["kernel_name"])
        except Exception as error:
            raise LaunchError(f"{meta['kernel_name']}: the driver refuses the cubin: {error}") from error
        if meta["shared_memory_bytes"] > _DEFAULT_SHARED_BYTES:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            handle = driver.CUkernel(int(kernel.handle))
            _check(
                driver.cuKernelSetAttribute(
                    attribute, meta["shared_memory_bytes"], handle, gpu.device.device_id
                )
            )
        return cls(kernel, code, meta, entry["signature"])

    def bind(self, gpu: Gpu, arguments: dict[str, Any], rows: int, heads: int) -> BoundLaunch:
        """Everything for launches on ``rows`` rows (padded) of ``heads`` = Z * H heads.

        ``arguments``: a Buffer or a number for each name of the signature. Scratch memory that the
        kernel asks for is allocated here and shared by all launches.
        """
        grid = (rows // self.launch["rows_per_program"], heads, 1)
        values: list[Any] = []
        for name, kind in self.signature:
            value = arguments[name]
            values.append(value if kind.startswith("*") else _SCALARS[kind](value))
        owned = []
        scratch = ("global_scratch_bytes", "profile_scratch_bytes")
        for field in scratch[: self.launch["hidden_parameters"]]:
            size = self.launch[field] * grid[0] * grid[1]
            if size:
                owned.append(gpu.allocate(size))
                values.append(owned[-1])
            else:
                values.append(np.uint64(0))
        config = LaunchConfig(
            grid=grid,
            block=32 * self.launch["num_warps"],
            shmem_size=self.launch["shared_memory_bytes"],
        )
        return BoundLaunch(self.kernel, config, tuple(values), tuple(owned))


@dataclass(frozen=True)
class BoundLaunch:
    """One kernel with its arguments and grid; calling it costs a few microseconds of host time."""

    kernel: Kernel
    config: LaunchConfig
    values: tuple[Any, ...]
    owned: tuple[Buffer, ...]  # scratch memory, kept as long as the launch may be called

    def __call__(self, stream: Stream) -> None:
        launch(stream, self.config, self.kernel, *self.values)


def _check(result: tuple[Any, ...]) -> None:
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"the driver says {result[0].name}")
