"""Give asv the one wheel of Triton for a commit.

    python -m scripts.build_triton --commit HASH --src CHECKOUT --out FOLDER

Cheapest first, or it fails with one clear reason. Tried in this order: a wheel that was built here before;
the package index, if the commit is a release; wheels that somebody else built, if the user names some; a
build from source. See scripts/builder/settings.py. Runs in the asv environment: standard library only.

Exit status: 0 the wheel is in FOLDER, 1 it is not (the reason is printed).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.builder.failure import BuildError, Kind
from scripts.builder.index import download_release, release_of, waiting_wheel
from scripts.builder.prebuilt import find_prebuilt
from scripts.builder.settings import Settings, read_settings
from scripts.builder.source import build_from_source
from scripts.builder.wheelhouse import Wheelhouse
from scripts.tracker.command_line import command_parser


def get_wheel(commit: str, source: Path, out: Path, settings: Settings) -> Path:
    """Put the one wheel of a commit into ``out``, whole or not at all. Raises BuildError."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        wheel = _obtain(commit, source, Path(folder), settings)
        # Copied where it must stay, moved where it is ours: across disks either takes a while, a rename none.
        staged = Path(folder) / "out" / wheel.name
        staged.parent.mkdir()
        if wheel.is_relative_to(folder):
            wheel.replace(staged)
        else:
            shutil.copyfile(wheel, staged)
        for stale in out.glob("*.whl"):
            stale.unlink()
        return Path(shutil.move(staged, out / wheel.name))


def _obtain(commit: str, source: Path, scratch: Path, settings: Settings) -> Path:
    house = Wheelhouse(settings.wheelhouse, settings.limit_bytes) if settings.wheelhouse else None
    if house and (built := house.find(commit)):
        print(f"build_triton: {built.name} was built before", flush=True)
        return built
    version = release_of(source, commit)
    is_only_release = (source / "release.json").exists()
    if version is not None:
        try:
            return waiting_wheel(version, settings.waiting) or download_release(version, scratch)
        except BuildError as error:
            # A tagged commit can still be built; one of our history of releases has no source.
            if is_only_release or error.kind is not Kind.NO_WHEEL:
                raise
            print(f"build_triton: {error}", flush=True)
    if settings.prebuilt and (wheel := find_prebuilt(settings.prebuilt, commit, scratch)):
        print(f"build_triton: {wheel.name} was built elsewhere", flush=True)
        return wheel
    if not settings.from_source:
        where = f"not in {settings.prebuilt}" if settings.prebuilt else "no release"
        reason = f"no wheel: commit {commit[:10]} is {where}, and ATOMWATCH_BUILD=no forbids to build it"
        raise BuildError(reason, False, Kind.NO_WHEEL)
    wheel, facts = build_from_source(source, scratch, settings)
    print(f"build_triton: built {wheel.name}: {json.dumps(facts)}", flush=True)
    if house:
        house.put(commit, wheel, {"commit": commit, "wheel": wheel.name, **facts})
    return wheel


def main() -> int:
    parser = command_parser("build_triton", __doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--src", type=Path, required=True, help="checkout of the commit")
    parser.add_argument("--out", type=Path, required=True, help="folder that gets the one wheel")
    options = parser.parse_args()
    try:
        settings = read_settings(os.environ, options.out)
        wheel = get_wheel(options.commit, options.src, options.out, settings)
    except (BuildError, OSError) as error:
        print(f"build_triton: {error}", file=sys.stderr)
        # For the driver: asv itself stores no reason.
        if report := os.environ.get("ATOMWATCH_BUILD_REPORT"):
            _write_report(Path(report), error)
        return 1
    print(f"build_triton: {wheel.name}")
    return 0


def _write_report(path: Path, error: BuildError | OSError) -> None:
    """OSError: of this machine, and maybe gone the next time."""
    transient = error.transient if isinstance(error, BuildError) else True
    kind = error.kind if isinstance(error, BuildError) else Kind.OTHER
    try:
        path.write_text(json.dumps({"reason": str(error), "transient": transient, "kind": kind.value}))
    except OSError as full:
        print(f"build_triton: {path}: {full}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
