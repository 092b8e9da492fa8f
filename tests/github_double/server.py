"""A GitHub of our own on loopback: it keeps what it is told, and fails when told to.

Its answers conform to GitHub's published description (`openapi`); whether GitHub behaves as it does in what
no description says (permissions, secondary limits, rendering) a double cannot show.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt

from tests.github_double import shapes

_MOST_CHARACTERS = 65_536
# Route to the name of the method that answers it.
_REPO = r"/repos/(?P<repo>[^/]+/[^/]+)"
_ROUTES = [
    ("GET", rf"{_REPO}/installation", "get_installation"),
    ("POST", r"/app/installations/(?P<n>\d+)/access_tokens", "mint"),
    ("GET", rf"{_REPO}/commits/(?P<sha>[0-9a-f]+)/pulls", "get_pulls"),
    ("GET", rf"{_REPO}/issues/comments/(?P<n>\d+)", "get_comment"),
    ("PATCH", rf"{_REPO}/issues/comments/(?P<n>\d+)", "edit_comment"),
    ("DELETE", rf"{_REPO}/issues/comments/(?P<n>\d+)", "delete_comment"),
    ("GET", rf"{_REPO}/issues/(?P<n>\d+)/comments", "list_comments"),
    ("POST", rf"{_REPO}/issues/(?P<n>\d+)/comments", "create_comment"),
    ("GET", rf"{_REPO}/issues/(?P<n>\d+)", "get_issue"),
    ("PATCH", rf"{_REPO}/issues/(?P<n>\d+)", "edit_issue"),
    ("GET", rf"{_REPO}/issues", "list_issues"),
    ("POST", rf"{_REPO}/issues", "create_issue"),
]


@dataclass(slots=True)
class Exchange:
    """One request and its answer, as they went over the wire."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answer: bytes = b""
    answer_headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """What goes wrong at the next ``times`` requests that fit.

    ``kind``: "drop" (no answer), or "status". ``done``: the request is carried out all the same.
    """

    method: str
    path: str
    kind: str = "status"
    status: int = 502
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "Server Error"
    done: bool = False
    times: int = 1


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class GitHubDouble:
    """The state: repositories, who may write where, and what is said in them."""

    def __init__(self) -> None:
        self.url = ""
        self.prefix = ""  # of every path, as an Enterprise has one
        self.lock = threading.RLock()
        self.issues: dict[str, dict[int, dict[str, Any]]] = {}
        self.comments: dict[str, dict[int, dict[str, Any]]] = {}
        self.pulls: dict[tuple[str, str], list[dict[str, Any]]] = {}
        # token to (login, repositories that it may write to)
        self.tokens: dict[str, tuple[str, set[str]]] = {}
        self.app: tuple[int, str] = (0, "")  # App's id, public key (PEM)
        self.installations: dict[str, int] = {}
        self.faults: list[Fault] = []
        self.exchanges: list[Exchange] = []
        self.page_size = 0  # 0: as asked
        self.lag = 0  # so many newest entries no list shows yet
        self.expires_at = "2027-01-01T00:00:00Z"
        self.on_write: Callable[[Exchange], None] = lambda _: None
        self._next = 1000

    def add_repository(self, name: str) -> None:
        self.issues.setdefault(name, {})
        self.comments.setdefault(name, {})

    def add_pull(
        self,
        repo: str,
        number: int,
        sha: str,
        title: str = "A change",
        base: str = "main",
        merged: bool = True,
    ) -> None:
        """A pull request that a commit belongs to; it is an issue too."""
        self.add_repository(repo)
        found = shapes.pull(repo, number, sha if merged else None, base, title)
        self.pulls.setdefault((repo, sha), []).append(found)
        self.issues[repo][number] = shapes.issue(repo, number, "author", title, "")

    def say(self, repo: str, number: int, login: str | None, body: str) -> int:
        """Somebody's comment."""
        with self.lock:
            self._next += 1
            self.comments[repo][self._next] = shapes.comment(repo, number, self._next, login, body)
            return self._next

    def bodies(self, repo: str, number: int, login: str) -> list[str]:
        """What one account says in a thread."""
        suffix = f"/issues/{number}"
        return [
            c["body"]
            for c in self.comments[repo].values()
            if c["issue_url"].endswith(suffix) and c["user"] and c["user"]["login"] == login
        ]

    # -- answers: each gets the match, the login and the exchange, and returns (status, JSON) ------------

    def get_installation(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        if login != "app" or m["repo"] not in self.installations:
            raise Refused(404, "Not Found")
        return 200, shapes.installation(m["repo"], self.installations[m["repo"]], self.app[0])

    def mint(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        repos = {repo for repo, number in self.installations.items() if number == int(m["n"])}
        if login != "app" or not repos:
            raise Refused(404, "Not Found")
        token = f"ghs_{len(self.tokens)}"
        self.tokens[token] = ("atomwatch[bot]", repos)
        return 201, {"token": token, "expires_at": self.expires_at}

    def get_pulls(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        return 200, self.pulls.get((m["repo"], m["sha"]), [])

    def get_comment(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        return 200, self._comment(m)

    def edit_comment(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        found = self._own(m, login)
        found["body"] = self._body(x)
        return 200, found

    def delete_comment(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        self._own(m, login)
        del self.comments[m["repo"]][int(m["n"])]
        return 204, None

    def list_comments(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        self.get_issue(m, login, x)
        suffix = f"/issues/{m['n']}"
        found = [c for c in self.comments[m["repo"]].values() if c["issue_url"].endswith(suffix)]
        return 200, found[: len(found) - self.lag]

    def create_comment(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        thread = self.get_issue(m, login, x)[1]
        self._may_write(m["repo"], login, x)
        if thread["locked"]:
            raise Refused(403, "Unable to create comment because issue is locked.")
        identity = self.say(m["repo"], int(m["n"]), login, self._body(x))
        return 201, self.comments[m["repo"]][identity]

    def get_issue(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        found = self.issues[m["repo"]].get(int(m["n"]))
        if found is None:
            raise Refused(404, "Not Found")
        return 200, found

    def edit_issue(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        found = self.get_issue(m, login, x)[1]
        self._may_write(m["repo"], login, x)
        changes = json.loads(x.body)
        if "body" in changes:
            self._body(x)
        found.update(changes)
        return 200, found

    def list_issues(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        state = x.query.get("state", ["open"])[0]
        found = [i for i in self.issues[m["repo"]].values() if state in ("all", i["state"])]
        return 200, sorted(found, key=lambda i: -int(i["number"]))[self.lag :]

    def create_issue(self, m: dict[str, str], login: str, x: Exchange) -> tuple[int, Any]:
        self._may_write(m["repo"], login, x)
        said = json.loads(x.body)
        number = max(self.issues[m["repo"]], default=0) + 1
        self.issues[m["repo"]][number] = shapes.issue(m["repo"], number, login, said["title"], self._body(x))
        return 201, self.issues[m["repo"]][number]

    def _comment(self, m: dict[str, str]) -> dict[str, Any]:
        found = self.comments[m["repo"]].get(int(m["n"]))
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def _own(self, m: dict[str, str], login: str) -> dict[str, Any]:
        found = self._comment(m)
        if not found["user"] or found["user"]["login"] != login:
            raise Refused(403, "Must have admin rights to Repository.")
        return found

    def _may_write(self, repo: str, login: str, x: Exchange) -> None:
        token = x.headers.get("authorization", "").split(" ")[-1]
        if repo not in self.tokens[token][1]:
            raise Refused(403, "Resource not accessible by integration")

    def _body(self, x: Exchange) -> str:
        body = str(json.loads(x.body)["body"])
        if len(body) > _MOST_CHARACTERS:
            raise Refused(422, "Body is too long (maximum is 65536 characters)")
        return body

    # -- one request ------------------------------------------------------------------------------------

    def login_of(self, header: str) -> str:
        kind, _, token = header.partition(" ")
        if kind == "Bearer" and token.count(".") == 2:
            said = jwt.decode(token, self.app[1], algorithms=["RS256"])
            if said["iss"] != str(self.app[0]):
                raise Refused(401, "Issuer (iss) is not the App's id")
            return "app"
        if token not in self.tokens:
            raise Refused(401, "Bad credentials")
        return self.tokens[token][0]

    def answer(self, x: Exchange) -> tuple[int, Any]:
        for method, pattern, name in _ROUTES:
            found = re.fullmatch(pattern, x.path)
            if method == x.method and found:
                try:
                    login = self.login_of(x.headers.get("authorization", ""))
                    match = found.groupdict()
                    if "repo" in match and match["repo"] not in self.issues:
                        raise Refused(404, "Not Found")
                    status, body = getattr(self, name)(match, login, x)
                except (Refused, jwt.InvalidTokenError) as refused:
                    return getattr(refused, "status", 401), {"message": str(refused), "documentation_url": ""}
                return status, body
        return 501, {"message": f"the double does not know {x.method} {x.path}"}

    def fault_of(self, x: Exchange) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.method == x.method and re.search(fault.path, x.path):
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in two packets would wait 40 ms for each other.
    disable_nagle_algorithm = True
    wbufsize = -1
    double: GitHubDouble

    def log_message(self, format: str, *arguments: object) -> None:
        """Tests read `exchanges`."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        path = parts.path.removeprefix(self.double.prefix) if self.double.prefix else parts.path
        x = Exchange(self.command, path, parse_qs(parts.query), headers, body)
        with self.double.lock:
            fault = self.double.fault_of(x)
            if fault is None or fault.done:
                status, found = self.double.answer(x)
                if x.method != "GET":
                    self.double.on_write(x)
            if fault is not None:
                status, found = fault.status, {"message": fault.message}
            if fault is not None and fault.kind == "drop":
                self.close_connection = True
                return
            self._send(x, status, found, fault.headers if fault else {})

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _send(self, x: Exchange, status: int, found: Any, extra: dict[str, str]) -> None:
        headers = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999"}
        headers |= {"X-RateLimit-Reset": str(int(time.time()) + 60)} | extra
        if isinstance(found, list):
            found, link = self._page(x, found)
            headers |= {"Link": link} if link else {}
        content = b"" if found is None else json.dumps(found).encode()
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        if x.method == "GET" and status == 200:
            headers["ETag"] = etag
            if x.headers.get("if-none-match") == etag:
                status, content = 304, b""
        x.status, x.answer, x.answer_headers = status, content, headers
        self.double.exchanges.append(x)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if content:
            self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _page(self, x: Exchange, found: list[Any]) -> tuple[list[Any], str]:
        size = self.double.page_size or int(x.query.get("per_page", ["30"])[0])
        page = int(x.query.get("page", ["1"])[0])
        link = ""
        if page * size < len(found):
            query = "&".join(f"{k}={v[0]}" for k, v in x.query.items() if k != "page")
            host = self.headers["Host"]
            link = f'<http://{host}{self.double.prefix}{x.path}?{query}&page={page + 1}>; rel="next"'
        return found[(page - 1) * size : page * size], link


@contextmanager
def serve(double: GitHubDouble) -> Iterator[str]:
    """The double's base URL, for as long as the block lasts."""
    handler = type("Handler", (_Handler,), {"double": double})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
