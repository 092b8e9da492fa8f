"""Why there is no wheel, told from what pip, CMake and compilers print."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Reasons that are counted apart. The last two are of the machine, not of the commit."""

    COMPILER = "compiler error"
    DOWNLOAD = "download"
    OUT_OF_MEMORY = "out of memory"
    TIMEOUT = "timeout"
    NO_WHEEL = "no wheel"
    OTHER = "other"
    DISK_FULL = "disk full"
    TOOLS = "missing tools"


class BuildError(Exception):
    """No wheel. ``transient``: the same command may succeed another time."""

    def __init__(self, reason: str, transient: bool, kind: Kind = Kind.OTHER) -> None:
        super().__init__(reason)
        self.transient = transient
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Sign:
    pattern: re.Pattern[str]
    kind: Kind
    transient: bool


def _sign(kind: Kind, transient: bool, *patterns: str) -> _Sign:
    return _Sign(re.compile("|".join(patterns), re.IGNORECASE), kind, transient)


# The first sign that the log has decides: a full disk or a killed compiler makes compiler errors too.
_SIGNS = (
    _sign(Kind.DISK_FULL, True, r"no space left on device", r"disk quota exceeded"),
    _sign(Kind.OUT_OF_MEMORY, True, r"killed signal terminated program", r"virtual memory exhausted",
          r"cannot allocate memory", r"std::bad_alloc", r"out of memory", r"^MemoryError",
          r"signal: 9\b", r"failed with exit code -?9\b", r"unable to execute command: killed"),
    # What a server does not have, it will not have tomorrow.
    _sign(Kind.DOWNLOAD, False, r"HTTP Error 4(?:04|10)"),
    _sign(Kind.DOWNLOAD, True, r"urllib\.error\.(?:URL|HTTP)Error", r"urlopen error", r"NewConnectionError",
          r"temporary failure in name resolution", r"could not resolve host", r"connection (?:reset|refused)",
          r"read timed out", r"RemoteDisconnected", r"IncompleteRead", r"CERTIFICATE_VERIFY_FAILED",
          r"ProxyError", r"HTTP Error [45]\d\d", r"\(from versions: none\)",
          r"unable to access '\S+': "),
    _sign(Kind.NO_WHEEL, False, r"requires a different python"),
    _sign(Kind.TOOLS, True, r"no CMAKE_C\w*_COMPILER could be found", r"CMake must be installed",
          r"configuration file provided by \"(?:MLIR|LLVM)\"",
          # A system LLVM names the libraries that it was linked with; their -dev packages are not here.
          r"CMake Error at \S*/(?:LLVM|MLIR)(?:Exports|Targets|Config)\S*\.cmake",
          r"\b(?:cmake|ninja|g\+\+|gcc|cc|c\+\+): (?:command )?not found",
          r"No such file or directory: '(?:cmake|ninja)'"),
    _sign(Kind.COMPILER, False, r"\berror: ", r"^CMake Error", r"^FAILED: ", r"undefined reference to",
          r"fatal error", r"^SyntaxError: "),
)  # fmt: skip
# A build's first error is its cause; what pip adds at the end is not.
_ECHO = re.compile(r"subprocess-exited-with-error|metadata-generation-failed|Failed (?:building|to build)|"
                   r"legacy-install-failure|^error: command |Encountered error while")  # fmt: skip
_MAX_REASON = 300


def explain(log: str, folder: str) -> BuildError:
    """The error that a failed build's log tells. ``folder``: where it was built, left out of the reason."""
    lines = [line.strip() for line in log.splitlines()]
    for sign in _SIGNS:
        for n, line in enumerate(lines):
            if sign.pattern.search(line) and not _ECHO.search(line):
                # CMake says where in one line, and what in those after it.
                more = filter(None, lines[n + 1 :]) if line.endswith(":") else ()
                told = " ".join([line, *itertools.islice(more, 3)])
                return BuildError(_reason(sign.kind, told, folder), sign.transient, sign.kind)
    last = next((line for line in reversed(lines) if line and not _ECHO.search(line)), "no message")
    return BuildError(_reason(Kind.OTHER, last, folder), True, Kind.OTHER)


def _reason(kind: Kind, line: str, folder: str) -> str:
    told = line.replace(f"{folder}/", "").replace(folder, ".")
    return f"{kind.value}: {''.join(c for c in told if c.isprintable())[:_MAX_REASON]}"
