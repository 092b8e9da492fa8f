"""What a user can say about builds: all of it by environment variables, because asv hands on nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.builder.failure import BuildError, Kind

# The first build of a commit of 2024 takes about 35 minutes of one core, its neighbours a few.
_DEADLINE_S = 7200.0
_WHEELHOUSE_GB = 20.0
_BYTES_PER_JOB = 2 * 2**30  # the largest of Triton's files take 1.5 GB with debug information


@dataclass(frozen=True, slots=True)
class Settings:
    """``wheelhouse``: wheels built here (ATOMWATCH_BUILT_WHEELS). ``waiting``: a release's wheel that was
    downloaded early (ATOMWATCH_WHEELHOUSE). ``prebuilt``: a folder, index file or page of wheels
    (ATOMWATCH_PREBUILT). ``from_source``: whether to build (ATOMWATCH_BUILD=no forbids it). ``cache``: of
    compilers and toolchains (ATOMWATCH_BUILD_CACHE). ``nvidia_tools``: `backends/nvidia` of an installed
    Triton, for where they cannot be downloaded (ATOMWATCH_NVIDIA_TOOLS). ``deadline_s``: of a build
    (ATOMWATCH_BUILD_DEADLINE_S). ``jobs``: of the compiler (MAX_JOBS, as Triton calls it)."""

    wheelhouse: Path | None
    waiting: Path | None
    prebuilt: str | None
    from_source: bool
    cache: Path
    log: Path
    nvidia_tools: Path | None
    deadline_s: float
    jobs: int
    limit_bytes: int


def read_settings(environment: Mapping[str, str], out: Path) -> Settings:
    """Raises BuildError for a number that is none."""

    def folder(name: str) -> Path | None:
        return Path(environment[name]) if environment.get(name) else None

    return Settings(
        wheelhouse=folder("ATOMWATCH_BUILT_WHEELS"),
        waiting=folder("ATOMWATCH_WHEELHOUSE"),
        prebuilt=environment.get("ATOMWATCH_PREBUILT") or None,
        from_source=environment.get("ATOMWATCH_BUILD", "yes").lower() not in ("no", "0", "off", "false"),
        cache=folder("ATOMWATCH_BUILD_CACHE") or out.parent / "build-cache",
        log=folder("ATOMWATCH_BUILD_LOG") or out.parent / "build.log",
        nvidia_tools=folder("ATOMWATCH_NVIDIA_TOOLS"),
        deadline_s=_number(environment, "ATOMWATCH_BUILD_DEADLINE_S", _DEADLINE_S),
        jobs=int(_number(environment, "MAX_JOBS", _jobs_that_fit())),
        limit_bytes=int(_number(environment, "ATOMWATCH_WHEELHOUSE_GB", _WHEELHOUSE_GB) * 1e9),
    )


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise BuildError(f"{name}={text!r}: not a number above zero", True, Kind.TOOLS)
    return max(value, 1.0) if name == "MAX_JOBS" else value


def _jobs_that_fit() -> int:
    """As many as there are cores, and as memory has room for."""
    return max(1, min(len(os.sched_getaffinity(0)), available_bytes() // _BYTES_PER_JOB))


def available_bytes() -> int:
    """Memory that is free, in this container where it is one."""
    found = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        words = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found = [int(words["MemAvailable"].split()[0]) * 1024]  # free, and what caches would give back
    except (OSError, KeyError, ValueError):
        pass
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(0, min(found))
