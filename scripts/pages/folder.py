"""Puts the site where people look: whole, or the earlier one stays as it was."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scripts.tracker.errors import TrackerError

# What other commands keep in the same folder, and the site must not take away.
_NOT_OURS = ("comments",)


def replace_site(report: Path, files: Iterable[tuple[str, str]]) -> None:
    """Write (path, text) pairs beside ``report``, then rename: a reader never sees half a site, and a stop or
    a full disk leaves the earlier one. Raises TrackerError where it cannot be written."""
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{report.name}-", dir=report.parent))
    except OSError as error:
        raise _not_written(report, error) from error
    try:
        for name, text in files:
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        staging.chmod(0o755)
        _exchange(report, staging)
    except OSError as error:
        raise _not_written(report, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _exchange(report: Path, staging: Path) -> None:
    """Two renames, and the first is undone if the second fails."""
    if not report.exists():
        staging.rename(report)
        return
    earlier = staging.with_name(f"{staging.name}-earlier")
    report.rename(earlier)
    try:
        staging.rename(report)
    except BaseException:
        earlier.rename(report)
        raise
    for name in _NOT_OURS:
        if (earlier / name).exists():
            (earlier / name).rename(report / name)
    shutil.rmtree(earlier, ignore_errors=True)


def _not_written(report: Path, error: OSError) -> TrackerError:
    return TrackerError(
        f"{report}: cannot be written ({error.strerror or error}), the earlier report is as it was: free "
        "some space or give the folder back its rights, then run python -m scripts.report"
    )
