"""A wheel from the package index, where the commit is a release."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from scripts.builder.failure import BuildError, Kind

# What pip says when the index cannot be reached; anything else will be the same the next time.
_TRANSIENT = ("connection", "timed out", "timeout", "temporary failure", "name resolution", "503", "502")
_NO_SPACE = "no space left"
_TAG = re.compile(r"v(\d+\.\d+\.\d+(?:\.post\d+)?)")


def release_of(source: Path, commit: str) -> str | None:
    """The release that a commit is: of our history of releases (its tree holds release.json), or by a tag of
    triton-lang/triton. None: it is no release. Raises BuildError."""
    path = source / "release.json"
    try:
        return str(json.loads(path.read_text())["version"])
    except FileNotFoundError:
        return _tag_of(source, commit)
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{path}: not a release ({error}); delete .cache/releases.git", False) from error


def _tag_of(source: Path, commit: str) -> str | None:
    command = ["git", "-C", str(source), "tag", "--points-at", commit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    versions = [found[1] for tag in done.stdout.split() if (found := _TAG.fullmatch(tag))]
    return versions[-1] if done.returncode == 0 and versions else None


def waiting_wheel(version: str, folder: Path | None) -> Path | None:
    """A wheel that was downloaded before its commit was known."""
    waiting = sorted(folder.glob(f"triton-{version}-*.whl")) if folder else []
    return waiting[-1] if waiting else None


def download_release(version: str, scratch: Path, python: Path | None = None) -> Path:
    """The release's wheel for a Python; None: for this one. Raises BuildError."""
    named = str(python or f"Python {sys.version_info.major}.{sys.version_info.minor}")
    command = [str(python or sys.executable), "-m", "pip", "download", "--no-deps", "--no-cache-dir",
               "--only-binary=:all:", "--dest", str(scratch), f"triton=={version}"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    print(done.stdout, flush=True)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = done.stdout.lower()
    if _NO_SPACE in said:
        reason = "the disk is full: free some space (a wheel takes 0.3 GB, installed 0.8 GB)"
        raise BuildError(reason, True, Kind.DISK_FULL)
    if any(word in said for word in _TRANSIENT):
        reason = f"cannot download triton=={version}: the package index is not reachable"
        raise BuildError(reason, True, Kind.DOWNLOAD)
    # Only an index that lists other versions knows what it says; a proxy or a portal lists none.
    listed = re.search(r"from versions: (?!none)", said)
    if "no matching distribution" in said and listed:
        reason = f"no wheel of triton=={version} for {named} on the package index"
        raise BuildError(reason, False, Kind.NO_WHEEL)
    if "no matching distribution" in said:
        reason = f"cannot download triton=={version}: the package index lists no release at all"
        raise BuildError(f"{reason} (a proxy, a portal, or pip's settings?)", True, Kind.DOWNLOAD)
    last = (done.stdout.strip().splitlines() or ["no message"])[-1]
    raise BuildError(f"pip download triton=={version} failed: {last}", True, Kind.DOWNLOAD)
