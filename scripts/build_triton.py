"""Give asv exactly one wheel of Triton for a commit, or fail with one clear reason.

Runs in the asv environment, so it is standard library only. A commit whose tree holds `release.json`
(our history of releases) gets that release from the package index. Building a commit of
triton-lang/triton from source is not there yet, and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# What pip says when the index cannot be reached; anything else will be the same the next time.
_TRANSIENT = ("connection", "timed out", "timeout", "temporary failure", "name resolution", "503", "502")
_NO_SPACE = "no space left"


class BuildError(Exception):
    """No wheel. ``transient``: the same command may succeed another time."""

    def __init__(self, reason: str, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


def release_of(source: Path, commit: str) -> str:
    """The release that a commit of the history of releases stands for. Raises BuildError."""
    path = source / "release.json"
    try:
        return str(json.loads(path.read_text())["version"])
    except FileNotFoundError:
        raise BuildError(
            f"commit {commit[:10]} is no release (it has no release.json), and building Triton from "
            "source is not supported yet",
            transient=False,
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{path}: not a release ({error}); delete .cache/releases.git", False) from error


def fetch_release(version: str, out: Path, wheelhouse: Path | None) -> Path:
    """Put the release's wheel for this Python into ``out``, whole or not at all. Raises BuildError."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        wheel = _waiting_wheel(version, wheelhouse) or _download(version, Path(scratch))
        for stale in out.glob("*.whl"):
            stale.unlink()
        final = out / wheel.name
        shutil.move(wheel, final)
    return final


def _waiting_wheel(version: str, wheelhouse: Path | None) -> Path | None:
    """A wheel that was downloaded before its commit was known."""
    waiting = sorted(wheelhouse.glob(f"triton-{version}-*.whl")) if wheelhouse else []
    return waiting[-1] if waiting else None


def _download(version: str, scratch: Path) -> Path:
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
               "--only-binary=:all:", "--dest", str(scratch), f"triton=={version}"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    print(done.stdout, flush=True)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = done.stdout.lower()
    if _NO_SPACE in said:
        raise BuildError("the disk is full: free some space (a wheel takes 0.3 GB, installed 0.8 GB)", True)
    if any(word in said for word in _TRANSIENT):
        raise BuildError(f"cannot download triton=={version}: the package index is not reachable", True)
    # Only an index that lists other versions knows what it says; a proxy or a portal lists none.
    listed = re.search(r"from versions: (?!none)", said)
    if "no matching distribution" in said and listed:
        raise BuildError(f"no wheel of triton=={version} for {python} on the package index", False)
    if "no matching distribution" in said:
        reason = f"cannot download triton=={version}: the package index lists no release at all"
        raise BuildError(f"{reason} (a proxy, a portal, or pip's settings?)", True)
    last = (done.stdout.strip().splitlines() or ["no message"])[-1]
    raise BuildError(f"pip download triton=={version} failed: {last}", True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--src", type=Path, required=True, help="checkout of the commit")
    parser.add_argument("--out", type=Path, required=True, help="folder that gets the one wheel")
    options = parser.parse_args()
    wheelhouse = os.environ.get("ATOMWATCH_WHEELHOUSE")
    try:
        version = release_of(options.src, options.commit)
        wheel = fetch_release(version, options.out, Path(wheelhouse) if wheelhouse else None)
    except (BuildError, OSError) as error:
        print(f"build_triton: {error}", file=sys.stderr)
        # For the driver: asv itself stores no reason.
        if report := os.environ.get("ATOMWATCH_BUILD_REPORT"):
            transient = error.transient if isinstance(error, BuildError) else True
            try:
                Path(report).write_text(json.dumps({"reason": str(error), "transient": transient}))
            except OSError as full:
                print(f"build_triton: {report}: {full}", file=sys.stderr)
        return 1
    print(f"build_triton: {wheel.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
