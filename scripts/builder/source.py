"""Builds a commit of triton-lang/triton from source, the way its own setup.py does it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from scripts.builder.failure import BuildError, Kind, explain
from scripts.builder.processes import DeadlineError, run_logged
from scripts.builder.settings import Settings

_CONSTRAINTS = Path(__file__).resolve().parent / "constraints.txt"
_TOOLCHAIN = Path("third_party/nvidia/backend")
# What setup.py does not download if they are set; names changed over the years.
_TOOL_VARIABLES = {
    "TRITON_PTXAS_PATH": "bin/ptxas",
    "TRITON_PTXAS_BLACKWELL_PATH": "bin/ptxas-blackwell",
    "TRITON_CUOBJDUMP_PATH": "bin/cuobjdump",
    "TRITON_NVDISASM_PATH": "bin/nvdisasm",
    "TRITON_CUDACRT_PATH": "include",
    "TRITON_CUDART_PATH": "include",
    "TRITON_CUPTI_PATH": "include",
    "TRITON_CUPTI_INCLUDE_PATH": "include",
    "TRITON_CUPTI_LIB_PATH": "lib/cupti",
}
_CCACHE_SIZE = "10G"
_KEPT_LLVMS = 3
_MAX_LOG_BYTES = 64 * 2**20


def build_from_source(source: Path, scratch: Path, settings: Settings) -> tuple[Path, dict[str, object]]:
    """The wheel, and how it was made. Raises BuildError with the reason; the log is kept.

    Out of memory is tried once more with one job: the largest file may fit alone.
    """
    project = next((f for f in (source, source / "python") if (f / "setup.py").exists()), None)
    if project is None:
        raise BuildError(f"no setup.py in {source.name} nor in its python/: no commit of Triton", False)
    settings.log.parent.mkdir(parents=True, exist_ok=True)
    settings.log.write_bytes(b"")
    tools = put_nvidia_tools(source, settings.nvidia_tools)
    _link_profiler(source)
    ends_s = time.monotonic() + settings.deadline_s
    for jobs in dict.fromkeys((settings.jobs, 1)):
        started_s = time.monotonic()
        environment = build_environment(source, settings, jobs)
        try:
            wheel = _pip_wheel(project, source, scratch, environment, settings, ends_s - started_s)
        except BuildError as error:
            if error.kind is not Kind.OUT_OF_MEMORY or jobs == 1:
                raise
            print(f"build_triton: {error}; once more with one job", flush=True)
            continue
        duration_s = round(time.monotonic() - started_s, 1)
        return wheel, {"provider": "source", "jobs": jobs, "build_duration_s": duration_s, **tools,
                       "llvm": _llvm_of(source, environment)}  # fmt: skip
    raise AssertionError("the last try returns or raises")


def build_environment(source: Path, settings: Settings, jobs: int) -> dict[str, str]:
    """What setup.py, CMake and ccache read. What the user has set stays."""
    llvm_bin = str(Path(os.environ["LLVM_SYSPATH"]) / "bin") if os.environ.get("LLVM_SYSPATH") else ""
    path = os.pathsep.join(p for p in (os.environ.get("PATH", os.defpath), llvm_bin) if p)
    lld = ["-fuse-ld=lld"] if shutil.which("ld.lld", path=path) else []
    ours = {
        "TRITON_BUILD_PROTON": "OFF",
        # CMake reads these whatever setup.py does; debug information makes a wheel of gigabytes.
        "LDFLAGS": " ".join([os.environ.get("LDFLAGS", ""), *lld, "-Wl,--strip-debug"]).strip(),
        # The LLVM of each pin stays: setup.py throws the last one away when it wants another.
        "TRITON_HOME": str(_triton_home(source, settings.cache)),
        "PIP_CONSTRAINT": str(_CONSTRAINTS),
        "PIP_BUILD_CONSTRAINT": str(_CONSTRAINTS),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    if shutil.which("ccache"):
        ours |= {
            "TRITON_BUILD_WITH_CCACHE": "true",
            "CCACHE_DIR": str(settings.cache / "ccache"),
            "CCACHE_MAXSIZE": _CCACHE_SIZE,
            # A neighbour in another folder is still a neighbour.
            "CCACHE_BASEDIR": str(source),
            "CCACHE_NOHASHDIR": "true",
        }
    if settings.nvidia_tools is not None:
        ours |= {name: str(source / _TOOLCHAIN / where) for name, where in _TOOL_VARIABLES.items()}
    if (pybind := _pybind11(source, settings)) is not None:
        ours["PYBIND11_SYSPATH"] = pybind
    mixed = ("MAX_JOBS", "LDFLAGS", "CXXFLAGS", "PATH")
    kept = {name: value for name, value in os.environ.items() if name not in mixed}
    # Triton makes warnings errors, and a later LLVM than the pinned one warns of what the commit still calls.
    tolerant = "-Wno-error=deprecated-declarations" if llvm_bin else ""
    if flags := f"{os.environ.get('CXXFLAGS', '')} {tolerant}".strip():
        kept["CXXFLAGS"] = flags
    # Unit tests would download their framework.
    appended = f"-DTRITON_BUILD_UT=OFF {os.environ.get('TRITON_APPEND_CMAKE_ARGS', '')}".strip()
    return {**ours, **kept, "LDFLAGS": ours["LDFLAGS"], "PATH": path, "MAX_JOBS": str(jobs),
            "TRITON_APPEND_CMAKE_ARGS": appended}  # fmt: skip


def _link_profiler(source: Path) -> None:
    """Before PR 4443 (August 2024) setup.py packages Proton's Python files even if Proton is off, and links
    them only if it is on. May go when no commit as old is measured."""
    link, files = source / "python" / "triton" / "profiler", source / "third_party" / "proton" / "proton"
    if files.is_dir() and link.parent.is_dir() and not link.exists():
        link.symlink_to(files)


def _triton_home(source: Path, cache: Path) -> Path:
    pin = source / "cmake" / "llvm-hash.txt"
    try:
        name = re.sub(r"[^0-9a-f]", "", pin.read_text()[:40]) or "unpinned"
    except OSError:
        name = "unpinned"
    homes = cache / "toolchains"
    home = homes / name
    home.mkdir(parents=True, exist_ok=True)
    os.utime(home)
    newest_first = sorted(homes.iterdir(), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    for unused in newest_first[_KEPT_LLVMS:]:
        shutil.rmtree(unused, ignore_errors=True)
    return home


def _pybind11(source: Path, settings: Settings) -> str | None:
    """Where the pybind11 is that older commits download from elsewhere: the package index has it too."""
    if os.environ.get("PYBIND11_SYSPATH"):
        return os.environ["PYBIND11_SYSPATH"]
    try:
        version = (source / "cmake" / "pybind11-version.txt").read_text().strip()
    except OSError:
        return None  # a newer commit, which lets pip install it
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise BuildError(f"cmake/pybind11-version.txt: {version!r:.40} is no version", False)
    folder = settings.cache / f"pybind11-{version}"
    if not (folder / "pybind11" / "include").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade",
                   "--target", str(folder), f"pybind11=={version}"]  # fmt: skip
        done = subprocess.run(  # noqa: S603 - pip, and a version that was checked
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode != 0:
            raise explain(done.stdout, str(source))
    return str(folder / "pybind11")


def put_nvidia_tools(source: Path, tools: Path | None) -> dict[str, object]:
    """Copy ptxas and its kin to where setup.py would put what it downloads, so that the wheel holds them.
    Says their version and the one that the commit pins. Raises BuildError if they are not there."""
    if tools is None:
        return {"nvidia_tools": "pinned"}
    if not (tools / "bin" / "ptxas").is_file():
        raise BuildError(f"ATOMWATCH_NVIDIA_TOOLS={tools}: no bin/ptxas in it", True, Kind.TOOLS)
    for name in ("bin", "include", "lib"):
        if (tools / name).is_dir():
            shutil.copytree(tools / name, source / _TOOLCHAIN / name, dirs_exist_ok=True)
    said = subprocess.run(  # noqa: S603 - the user names it
        [str(tools / "bin" / "ptxas"), "--version"], capture_output=True, text=True, check=False
    )
    version = re.search(r"V(\d+\.\d+\.\d+)", said.stdout)
    pins = sorted((source / "cmake").glob("nvidia-toolchain-version.*"))
    pinned = " ".join(pins[0].read_text().split())[:200] if pins else "unknown"
    return {"nvidia_tools": version[1] if version else "unknown", "nvidia_tools_pinned": pinned}


def _llvm_of(source: Path, environment: dict[str, str]) -> str:
    """ "pinned", or the version of the one that stands in for it."""
    if not environment.get("LLVM_SYSPATH"):
        return "pinned"
    config = Path(environment["LLVM_SYSPATH"]) / "bin" / "llvm-config"
    try:
        said = subprocess.run([str(config), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
        return f"system {said.stdout.strip()}"
    except (OSError, subprocess.CalledProcessError):
        return "system, unknown version"


def _pip_wheel(
    project: Path, source: Path, scratch: Path, environment: dict[str, str], settings: Settings, left_s: float
) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--verbose",
               "--wheel-dir", str(scratch), str(project)]  # fmt: skip
    began = settings.log.stat().st_size
    try:
        status = run_logged(command, project, environment, settings.log, left_s)
    except DeadlineError:
        minutes = settings.deadline_s / 60
        raise BuildError(f"timeout: not built within {minutes:.0f} min", True, Kind.TIMEOUT) from None
    wheels = list(scratch.glob("*.whl"))
    if status == 0 and len(wheels) == 1:
        _check(wheels[0])
        return wheels[0]
    for wheel in wheels:
        wheel.unlink()
    with settings.log.open("rb") as log:
        log.seek(max(began, settings.log.stat().st_size - _MAX_LOG_BYTES))
        raise explain(log.read().decode(errors="replace"), str(source))


def _check(wheel: Path) -> None:
    """A wheel of Triton without its compiler is the fruit of a setup.py that failed and did not say so."""
    with zipfile.ZipFile(wheel) as archive:
        if not any(name.startswith("triton/_C/libtriton") for name in archive.namelist()):
            raise BuildError(f"{wheel.name} has no triton/_C/libtriton in it", False, Kind.COMPILER)
