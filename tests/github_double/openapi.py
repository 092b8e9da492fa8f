"""GitHub's published description of its API, and whether an exchange keeps to it.

The description is in the npm package @octokit/openapi: 13 MB that are fetched once, checked and cut to the
operations that the double has. It is never committed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

from tests.github_double.server import Exchange

PACKAGE = "@octokit/openapi@23.0.2"
# sha512 of the package, as the registry has it.
_SHA512 = "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg=="
_FILE = "package/generated/api.github.com.json"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "openapi" / "github-23.0.2.json"
_HOST = "https://api.github.com"
_PATHS = (
    "/repos/{owner}/{repo}/installation",
    "/app/installations/{installation_id}/access_tokens",
    "/repos/{owner}/{repo}/commits/{commit_sha}/pulls",
    "/repos/{owner}/{repo}/issues/comments/{comment_id}",
    "/repos/{owner}/{repo}/issues/{issue_number}/comments",
    "/repos/{owner}/{repo}/issues/{issue_number}",
    "/repos/{owner}/{repo}/issues",
)
# What any operation may answer, though few descriptions say so.
_ANYWHERE = {304, 401, 403, 404, 429, 500, 502, 503}


_NUMBERS = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")


class CannotFetchError(Exception):
    """No npm, or no registry: the reason why conformity was not checked."""


def load_description() -> OpenAPI:
    """Raises CannotFetchError, and ValueError if the package is not the pinned one."""
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_slice(json.loads(_fetch())))
        partial = CACHE.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(CACHE)
    return OpenAPI.from_dict(json.loads(CACHE.read_text()))


def _fetch() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotFetchError("npm is not installed, so GitHub's description of its API cannot be fetched")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        packed = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packed:
            raise CannotFetchError(f"npm pack {PACKAGE} failed: {done.stderr.strip()[-200:]}")
        content = packed[0].read_bytes()
        if base64.b64encode(hashlib.sha512(content).digest()).decode() != _SHA512:
            raise ValueError(f"{PACKAGE} is not what it was when it was pinned")
        with tarfile.open(packed[0]) as archive:
            member = archive.extractfile(_FILE)
            assert member is not None
            return member.read()


def _slice(document: dict[str, Any]) -> dict[str, Any]:
    """Our paths, and every component that they lead to."""
    paths = {path: document["paths"][path] for path in _PATHS}
    components: dict[str, dict[str, Any]] = {}
    todo = [json.dumps(paths)]
    while todo:
        for reference in set(_references(json.loads(todo.pop()))):
            _, _, kind, name = reference.split("/")
            if name not in components.setdefault(kind, {}):
                components[kind][name] = document["components"][kind][name]
                todo.append(json.dumps(components[kind][name]))
    head = {key: document[key] for key in ("openapi", "info", "servers")}
    return {**head, "paths": paths, "components": components}


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [r for value in node.values() for r in _references(value)]
    if isinstance(node, list):
        return [r for value in node for r in _references(value)]
    return []


def _kind_of(x: Exchange) -> tuple[object, ...]:
    """Exchanges that differ in numbers and hashes alone are valid together, so one of them is checked."""
    texts = (x.path, json.dumps(x.query), x.body.decode(), x.answer.decode())
    return (x.method, x.status, *(_NUMBERS.sub("0", text) for text in texts))


def problems(description: OpenAPI, exchanges: list[Exchange]) -> list[str]:
    """Where a request or an answer is not as GitHub documents it."""
    found = []
    for x in {_kind_of(x): x for x in exchanges}.values():
        request = MockRequest(
            _HOST,
            x.method.lower(),
            x.path,
            args={name: values[0] for name, values in x.query.items()},
            headers=x.headers,
            data=x.body or None,
            content_type=x.headers.get("content-type", "application/json"),
        )
        response = MockResponse(
            x.answer,
            status_code=x.status,
            headers=x.answer_headers,
            content_type="application/json",
        )
        try:
            description.validate_request(request)
            if x.status not in _ANYWHERE:
                description.validate_response(request, response)
        except OpenAPIError as error:
            why = getattr(error.__cause__, "schema_errors", [error.__cause__])
            found.append(f"{x.method} {x.path} {x.status}: {error}: {[str(w)[:200] for w in why][:3]}")
    return found
