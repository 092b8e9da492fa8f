"""A GPU that is not there: what is launched is written down, and takes the time that a test wants."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sessions import case_file

from kernels.blocks import Ready, Timing
from kernels.canary import Canary
from kernels.plan import Plan
from kernels.sampling import Run

FAR_S = 1e12  # a deadline that never comes
MILLISECONDS = {"atomic_add": 2.0, "inline_asm": 1.0, "none": 0.5, "device_copy": 0.25, "sdpa_flash": 0.125}


@dataclass
class Event:
    recorded_ms: float = 0.0
    is_done: bool = True

    def __sub__(self, other: Event) -> float:
        return self.recorded_ms - other.recorded_ms


@dataclass(frozen=True)
class Reading:
    power_w: float
    invalid_reasons: tuple[str, ...]


@dataclass
class Machine:
    """GPU, workload, telemetry and L2 flush in one. ``log``: what the stream was given, in order.

    ``noise``: standard deviation of a time, as a share. ``hanging``: a kernel that never ends; nothing after
    it does. ``throttles``: for each reading of the telemetry whether the GPU is too hot.
    """

    noise: float = 0.0
    hanging: str | None = None
    throttles: Callable[[int], bool] = lambda _: False
    on_launch: Callable[[str], None] = lambda _: None
    log: list[str] = field(default_factory=list)
    now_ms: float = 0.0
    has_hung: bool = False
    readings: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(4717))

    def __post_init__(self) -> None:
        self.stream = self

    def timing_event(self) -> Event:
        return Event()

    def record(self, event: Event) -> None:
        event.recorded_ms, event.is_done = self.now_ms, not self.has_hung
        self.log.append("event")

    def kernel(self, name: str, ms: float) -> Callable[..., None]:
        def launch(*_: Any) -> None:
            self.log.append(name)
            self.on_launch(name)
            self.has_hung |= name == self.hanging
            self.now_ms += ms * max(0.1, self.rng.gauss(1, self.noise))

        return launch

    def zero_dq(self) -> None:
        self.log.append("zero")
        self.now_ms += 100.0

    def fill(self, _: int, stream: Any) -> None:
        assert stream is self
        self.log.append("flush")
        self.now_ms += 10.0

    def read(self) -> Reading:
        self.readings += 1
        return Reading(300.0, ("hw_thermal",) if self.throttles(self.readings) else ())


def timing(of: Plan, machine: Machine, deadline_s: float = FAR_S, **file_changes: Any) -> Timing:
    """All subjects of the plan, as a session has them after their gradients were checked."""
    file = case_file(of, **file_changes)
    file.resume()
    gpu: Any = machine
    preprocess, convert = machine.kernel("preprocess", 0.05), machine.kernel("convert", 0.05)
    runs = [
        Run(s, [machine.kernel(name_of(s), MILLISECONDS[s.variant])], preprocess, convert, gpu, gpu)
        for s in file.subjects
        if s.status == "ok" and s.shared_with is None
    ]
    canaries = [Canary(name, machine.kernel(name, MILLISECONDS[name])) for name in of.canaries]
    return Timing(of, gpu, gpu, gpu, deadline_s, Ready(file, gpu, runs), canaries)


def name_of(subject: Any) -> str:
    return f"{subject.variant} {subject.commit[:1]}{subject.copy}"


def orders(log: list[str], width: int) -> list[list[str]]:
    """The kernels of each kernel block, in order, after the warm-up."""
    kernels = [word for word in log if word[-2:] in ("a1", "b1", "b2") or word in MILLISECONDS]
    kernels = kernels[width - 1 :]  # the warm-up is without the canary
    return [kernels[start : start + width] for start in range(0, len(kernels), width)]
