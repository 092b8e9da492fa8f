"""Triton's releases as a small git history: one commit a release, so that asv can walk them like commits.

The history is the same on every machine: same releases, same hashes. It holds every known release in
order of date, and new ones are only ever added at its end.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from scripts.tracker.errors import TrackerError
from scripts.tracker.store import atomic_write

RELEASES_FILE = Path(__file__).resolve().parent.parent / "releases.toml"
OLDEST_DEFAULT = Version("3.1")
# For a release that releases.toml does not know: about what the newest ones take.
_UNKNOWN_WHEEL_MB = 290
_AUTHOR = "Triton releases <releases@localhost>"


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Triton on the package index. ``date``: day of upload, UTC. ``wheel_mb``: about."""

    version: str
    date: datetime.date
    wheel_mb: int

    @property
    def tag(self) -> str:
        """Its tag in triton-lang/triton."""
        return f"v{self.version}"


def known_releases(path: Path = RELEASES_FILE) -> list[Release]:
    """The releases of releases.toml. Raises TrackerError naming the file."""
    try:
        releases = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Release]])["release"]
        versions = [str(Version(release.version)) for release in releases]
        if len(set(versions)) < len(versions):
            raise ValueError("a release is listed twice")
        return releases
    except (OSError, KeyError, ValueError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not a list of releases ({error}); restore it from git") from error


def offered_versions() -> list[str]:
    """Versions of Triton that pip finds for this Python, oldest first. Raises TrackerError."""
    command = [sys.executable, "-m", "pip", "index", "versions", "triton", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or listed is None:
        reason = (done.stderr.strip().splitlines() or ["no list of versions"])[-1]
        raise TrackerError(
            f"cannot ask the package index which releases of Triton it offers: {reason}\n"
            'Check the network and pip\'s settings, or name the releases: make track RELEASES="3.1.0 3.2.0"'
        )
    return sorted((v.strip() for v in listed.group(1).split(",")), key=Version)


def newest_patches(versions: list[str]) -> list[str]:
    """The newest patch of every minor release since `OLDEST_DEFAULT`; no pre-releases."""
    newest: dict[tuple[int, int], Version] = {}
    for version in map(Version, versions):
        if version >= OLDEST_DEFAULT and not version.is_prerelease:
            key = (version.major, version.minor)
            newest[key] = max(newest.get(key, version), version)
    return [str(version) for version in sorted(newest.values())]


_OLDEST = Version("3.0")  # that the kernels compile with


def choose_releases(asked: str, cache: Path) -> list[Release]:
    """The releases to measure, oldest first: those in ``asked`` (words), or the default.

    The package index is asked only when it must be: for the default, or for a release that is unknown.
    """
    known = {release.version: release for release in [*known_releases(), *_seen_releases(cache)]}
    try:
        words = [str(Version(word)) for word in asked.replace(",", " ").split()]
    except InvalidVersion as error:
        raise TrackerError(f"RELEASES={asked!r}: {error}; write them like 3.2.0") from error
    if not words:
        words = newest_patches(offered_versions())
    elif unknown := [word for word in words if word not in known]:
        offered = offered_versions()
        if missing := [word for word in unknown if word not in offered]:
            fitting = ", ".join(word for word in offered if Version(word) >= _OLDEST)
            raise TrackerError(
                f"Triton {', '.join(missing)}: not offered for this Python; there are {fitting}"
            )
    if too_old := [word for word in words if Version(word) < _OLDEST]:
        raise TrackerError(f"Triton {', '.join(too_old)} is too old: the kernels need 3.0 or newer")
    chosen = [known.get(word) or _date_by_wheel(word, cache) for word in dict.fromkeys(words)]
    return sorted(chosen, key=_by_date)


def _by_date(release: Release) -> tuple[datetime.date, Version]:
    return release.date, Version(release.version)


def wheelhouse(cache: Path) -> Path:
    """Where a wheel waits that was downloaded before its commit is built."""
    return cache / "wheelhouse"


def _seen_file(cache: Path) -> Path:
    return cache / "seen-releases.json"


def _seen_releases(cache: Path) -> list[Release]:
    """Releases newer than releases.toml that were dated before."""
    path = _seen_file(cache)
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[tuple[str, datetime.date, int]])
        return [Release(str(Version(version)), date, mb) for version, date, mb in entries]
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not readable ({error}); delete it") from error


def _date_by_wheel(version: str, cache: Path) -> Release:
    """A release that no list knows: download its wheel and take the day of its newest file."""
    house = wheelhouse(cache)
    house.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
               "--only-binary=:all:", "--dest", str(house), f"triton=={version}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    wheels = sorted(house.glob(f"triton-{version}-*.whl"))
    if done.returncode != 0 or not wheels:
        raise TrackerError(f"cannot download triton=={version}: {done.stderr.strip()[-300:]}")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        newest = max(info.date_time[:3] for info in wheel.infolist())
    release = Release(version, datetime.date(*newest), wheels[-1].stat().st_size // 10**6)
    seen = {**{r.version: r for r in _seen_releases(cache)}, version: release}
    entries = [[r.version, r.date.isoformat(), r.wheel_mb] for r in seen.values()]
    atomic_write(_seen_file(cache), json.dumps(entries).encode())
    return release


def write_history(repository: Path, cache: Path) -> dict[str, str]:
    """Make or extend the git history of all known releases. Returns {version: commit}, oldest first.

    ``repository``: a bare git repository, made if missing; its branch main and a tag for each release.
    """
    # Those that releases.toml lists stand first, so that no date of a wheel can come between them.
    known = sorted(known_releases(), key=_by_date)
    listed = {release.version for release in known}
    releases = known + sorted((r for r in _seen_releases(cache) if r.version not in listed), key=_by_date)
    if not (repository / "HEAD").exists():
        # The format is named because a user's settings may have another default, and so other hashes.
        _git("init", "--quiet", "--bare", "--initial-branch=main", "--object-format=sha1", str(repository))
    # Never by -C: inside a git hook GIT_DIR names another repository, and would win.
    here = f"--git-dir={repository}"
    _git(here, "fast-import", "--quiet", "--force", text=_fast_import(releases))
    log = _git(here, "log", "--reverse", "--format=%H %s", "main")
    return {line.split()[-1]: line.split()[0] for line in log.splitlines()}


def _fast_import(releases: list[Release]) -> str:
    """The history as a git fast-import stream. Nothing in it depends on the machine or the day."""
    stream = ["reset refs/heads/main\n"]
    for mark, release in enumerate(releases, 1):
        noon = datetime.datetime.combine(release.date, datetime.time(12), datetime.UTC)
        when = f"{_AUTHOR} {int(noon.timestamp())} +0000"
        message = f"Triton {release.version}"
        content = json.dumps({"version": release.version, "tag": release.tag}) + "\n"
        stream.append(
            f"commit refs/heads/main\nmark :{mark}\nauthor {when}\ncommitter {when}\n"
            f"data {len(message)}\n{message}\n"
            + (f"from :{mark - 1}\n" if mark > 1 else "")
            + f"M 644 inline release.json\ndata {len(content)}\n{content}\n"
            f"reset refs/tags/{release.tag}\nfrom :{mark}\n\n"
        )
    return "".join(stream)


def _git(*arguments: str, text: str | None = None) -> str:
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)  # noqa: S603
    except FileNotFoundError as error:
        raise TrackerError("git is not installed: install it with your system's packages") from error
    except subprocess.CalledProcessError as error:
        raise TrackerError(f"{' '.join(command)} failed: {error.stderr.strip()[-300:]}") from error
    return done.stdout
