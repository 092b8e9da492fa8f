"""What the GPU says about itself in every block of a session, through NVML. Reads only; changes nothing."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import pynvml

P = ParamSpec("P")
T = TypeVar("T")

# Throttling that makes a time wrong. A software power cap is normal under load and only recorded.
_INVALID_REASONS = {
    "sw_thermal": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    if hasattr(pynvml, "nvmlClocksThrottleReasonSwThermalSlowdown")
    else 0x20,
    "hw_slowdown": 0x8,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
}
_POWER_CAP = 0x4


@dataclass(frozen=True)
class Reading:
    """One look at the GPU. Clocks in MHz, power in watts, temperature in degrees Celsius."""

    sm_clock_mhz: int
    memory_clock_mhz: int
    temperature_c: int
    power_w: float
    power_capped: bool
    invalid_reasons: tuple[str, ...]


def _answers(call: Callable[P, T]) -> Callable[P, T]:
    """NVML's own errors (a GPU that fell off the bus, one that is split) as one sentence."""

    @functools.wraps(call)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except pynvml.NVMLError as error:
            raise RuntimeError(f"NVML does not answer for this GPU: {error}") from error

    return asked


class Telemetry:
    """NVML's view of one GPU, found by its UUID. Raises RuntimeError where NVML does not answer."""

    @_answers
    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.removeprefix('GPU-')}")

    @_answers
    def read(self) -> Reading:
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return Reading(
            sm_clock_mhz=pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_MEM),
            temperature_c=pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU),
            power_w=pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1000,
            power_capped=bool(reasons & _POWER_CAP),
            invalid_reasons=tuple(name for name, bit in _INVALID_REASONS.items() if reasons & bit),
        )

    @_answers
    def describe(self) -> dict[str, Any]:
        """What makes an epoch: GPU, driver, limits. Two sessions compare only if these are equal."""
        handle = self._handle
        return {
            "gpu": pynvml.nvmlDeviceGetName(handle),
            "uuid": pynvml.nvmlDeviceGetUUID(handle),
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "power_limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "max_sm_clock_mhz": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "persistence_mode": bool(pynvml.nvmlDeviceGetPersistenceMode(handle)),
        }


def visible_gpus() -> list[str]:
    """UUIDs of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES says; needs no CUDA context.

    Raises RuntimeError if there is no driver or no GPU. Numbers in that variable count in PCI order.
    """
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        uuids = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except pynvml.NVMLError as error:
        raise RuntimeError(f"no NVIDIA driver or no GPU: {error}") from error
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None:
        words = [word.strip() for word in wanted.split(",") if word.strip()]
        uuids = [
            uuid for word in words for i, uuid in enumerate(uuids) if word == str(i) or uuid.startswith(word)
        ]
    if not uuids:
        raise RuntimeError("no GPU is visible here (CUDA_VISIBLE_DEVICES?)")
    return uuids
