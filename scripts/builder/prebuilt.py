"""A wheel that somebody else built: from a folder, an index file or a web page that the user names.

A folder or a page is searched for a wheel whose local version names the commit (`3.5.0+git1a2b3c4d`). An
index file is JSON, `{"<commit>": "<path or URL of a wheel, with #sha256=… if you like>"}`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

from scripts.builder.failure import BuildError, Kind
from scripts.builder.wheelhouse import fits

_TIMEOUT_S = 60
_MAX_PAGE_BYTES = 64 * 2**20
_LOCAL_VERSION = re.compile(r"\+(?:git|g)?\.?([0-9a-f]{7,40})(?:\.[A-Za-z0-9.]+)?$")
_WEB = ("https://", "http://")


def find_prebuilt(where: str, commit: str, scratch: Path) -> Path | None:
    """The commit's wheel, copied or downloaded into ``scratch``; None if there is none. Raises BuildError."""
    found = _look_up(where, commit)
    if found is None:
        return None
    address, _, fragment = found.partition("#")
    name = urllib.parse.unquote(address.rpartition("/")[2])
    if not fits(name):
        reason = f"{where}: {name} is no wheel of Triton for this Python and machine"
        raise BuildError(reason, False, Kind.NO_WHEEL)
    wheel = scratch / name
    _copy(address, wheel)
    wanted = dict(urllib.parse.parse_qsl(fragment)).get("sha256")
    if wanted and _sha256(wheel) != wanted.lower():
        wheel.unlink()
        raise BuildError(f"{where}: {name} is not the file that its sha256 names", True, Kind.DOWNLOAD)
    return wheel


def _look_up(where: str, commit: str) -> str | None:
    if not where.startswith(_WEB):
        path = Path(where)
        if path.is_dir():
            return _newest([str(p) for p in sorted(path.glob("*.whl"))], commit)
        content = _read(where)
    else:
        content = _read(where)
    if content.lstrip()[:1] == b"{":
        return _from_index(where, content, commit)
    links = _Links(where)
    links.feed(content.decode(errors="replace"))
    return _newest(links.found, commit)


def _from_index(where: str, content: bytes, commit: str) -> str | None:
    try:
        wheels: object = json.loads(content)
        entry = wheels.get(commit) if isinstance(wheels, dict) else None
        if entry is not None and not isinstance(entry, str):
            raise TypeError(f"{commit[:10]} is no text")
    except (ValueError, TypeError, RecursionError) as error:
        raise BuildError(
            f"{where}: not an index of wheels ({error}); mend it", True, Kind.DOWNLOAD
        ) from error
    if entry is None or entry.startswith(_WEB):
        return entry
    return urllib.parse.urljoin(where, entry) if where.startswith(_WEB) else str(Path(where).parent / entry)


def _newest(addresses: list[str], commit: str) -> str | None:
    """The last wheel whose local version begins the commit's hash; one that fits if there is one."""
    named = []
    for address in addresses:
        name = urllib.parse.unquote(address.partition("#")[0].rpartition("/")[2])
        fields = name.split("-")
        found = _LOCAL_VERSION.search(fields[1]) if name.endswith(".whl") and len(fields) > 2 else None
        if found and commit.startswith(found[1]):
            named.append((fits(name), address))
    return max(named)[1] if named else None


class _Links(HTMLParser):
    """Links of a page, absolute."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        link = dict(attrs).get("href") if tag == "a" else None
        if link:
            self.found.append(urllib.parse.urljoin(self._page, link))


def _read(where: str) -> bytes:
    try:
        if not where.startswith(_WEB):
            return Path(where).read_bytes()
        with urllib.request.urlopen(where, timeout=_TIMEOUT_S) as page:  # noqa: S310 - http and https only
            return bytes(page.read(_MAX_PAGE_BYTES))
    except (OSError, ValueError) as error:
        raise BuildError(f"{where}: cannot be read: {error}", True, Kind.DOWNLOAD) from error


def _copy(address: str, to: Path) -> None:
    try:
        if not address.startswith(_WEB):
            shutil.copyfile(address, to)
            return
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as page, to.open("wb") as file:  # noqa: S310
            shutil.copyfileobj(page, file, 2**20)
    except urllib.error.HTTPError as error:
        gone = error.code in (404, 410)
        raise BuildError(f"{address}: HTTP error {error.code}", not gone, Kind.DOWNLOAD) from error
    except (OSError, ValueError) as error:
        raise BuildError(f"{address}: cannot be fetched: {error}", True, Kind.DOWNLOAD) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
