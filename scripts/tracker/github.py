"""GitHub, in our own words: the only module that imports github3 (import-linter keeps it so).

github3 gives the session, the App's login and the walk over pages. Its objects are not used: one key that
GitHub leaves out of an answer makes them unreadable (sigmavirus24/github3.py 1135), so the few fields that
are needed are read by msgspec. A write whose outcome is unknown is never repeated here: the caller looks
whether it happened.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import github3
import github3.exceptions
import github3.session
import github3.structs
import jwt
import msgspec
import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from scripts.tracker.github_answers import (
    Comment,
    GitHubError,
    Installation,
    Minted,
    OutcomeUnknownError,
    Pull,
    Thread,
    answer,
    convert,
    refusal,
)

PUBLIC_API = "https://api.github.com"
# With the newer 2026-03-10 GitHub leaves merge_commit_sha out of pull requests.
_API_VERSION = "2022-11-28"
_ACCEPT = "application/vnd.github+json"
_TRIES = 4
# GitHub asks for a second between writes, and allows 80 a minute and 500 an hour that make content.
_BETWEEN_WRITES_S = 1.0
_SECONDARY_LIMIT_S = 60.0  # what GitHub says to wait at least, where it names no time
_MAX_WAIT_S = 900.0  # of a run, all waits together: a job must end
_JWT_S = 540  # github3's 30 s fail where a clock is fast
_MAX_LISTED = 100_000
_NEWEST = 20
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.+$)[A-Za-z0-9._-]{1,100}")
_SHA = re.compile(r"[0-9a-f]{40}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Account:
    """Who speaks. Either a ``token``, or an App's ``app_id`` and ``private_key`` (PEM).

    ``login``: the author's name of what it writes, like "atomwatch[bot]"; an installation's token cannot
    ask for it.
    """

    login: str
    token: str = ""
    app_id: str = ""
    private_key: str = ""


class _Session(github3.session.GitHubSession):  # type: ignore[misc]
    """Waits where GitHub asks for it, speaks to one host only, and paces writes."""

    def __init__(self, base_url: str, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        super().__init__(default_connect_timeout=10, default_read_timeout=30)
        self.base_url = base_url
        # ~/.netrc and proxy variables must not redirect a token.
        self.trust_env = False
        # Nothing was sent when a connection could not be made, so that alone may be tried again.
        retry = Retry(connect=2, read=0, status=0, other=0, redirect=0, backoff_factor=0.2)
        self.mount(base_url, HTTPAdapter(max_retries=retry))
        self.headers.update({"Accept": _ACCEPT, "X-GitHub-Api-Version": _API_VERSION})
        self._clock, self._sleep = clock, sleep
        self._waited_s = 0.0
        self._last_write_s = -_BETWEEN_WRITES_S

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Raises TrackerError for another host, for too long a wait, and where no answer came."""
        self._pin(url)
        # A redirected POST would be repeated as a GET; and a moved repository must be named anew.
        options["allow_redirects"] = False
        is_write = method.upper() not in ("GET", "HEAD")
        for attempt in range(_TRIES):
            if is_write:
                self._pace()
            try:
                response: requests.Response = super().request(method, url, **options)
            except github3.exceptions.AppInstallationTokenExpired as error:
                raise GitHubError(f"{error}; it lasts an hour: run the same command again") from error
            except requests.RequestException as error:
                reason = f"{method} {urlsplit(url).path}: no answer ({type(error).__name__})"
                if is_write:
                    raise OutcomeUnknownError(reason) from error
                if attempt == _TRIES - 1:
                    raise GitHubError(f"{reason}; is {self.base_url} reachable? Try again later") from error
                self._wait(2.0**attempt)
                continue
            if is_write and response.status_code >= 500:
                raise OutcomeUnknownError(f"{method} {urlsplit(url).path}: {response.status_code}")
            wait_s = _wait_before_retry(response, attempt)
            if wait_s is None or attempt == _TRIES - 1:
                break
            self._wait(wait_s)
        return response

    def _pin(self, url: str) -> None:
        """Answers hold URLs, and github3 sends the token to any of them."""
        ours, theirs = urlsplit(self.base_url), urlsplit(url)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise GitHubError(f"an answer of {ours.netloc} leads to {theirs.netloc!r}: not followed")

    def _pace(self) -> None:
        rest_s = self._last_write_s + _BETWEEN_WRITES_S - self._clock()
        if rest_s > 0:
            self._sleep(rest_s)
        self._last_write_s = self._clock()

    def _wait(self, seconds: float) -> None:
        if self._waited_s + seconds > _MAX_WAIT_S:
            raise GitHubError(
                f"{self.base_url} asks to wait {seconds:.0f} s more, a run waits {_MAX_WAIT_S:.0f} s at most:"
                " run the same command later, nothing is said twice"
            )
        self._waited_s += seconds
        self._sleep(seconds)


def _wait_before_retry(response: requests.Response, attempt: int) -> float | None:
    """Seconds to wait before the same request again; None: the answer stands."""
    status, headers = response.status_code, response.headers
    if status in (403, 429):
        if "Retry-After" in headers:
            return _seconds(headers["Retry-After"])
        if headers.get("X-RateLimit-Remaining") == "0":
            reset_s = _seconds(headers.get("X-RateLimit-Reset", "")) - time.time()
            return max(0.0, reset_s) + 1.0
        if status == 429 or "secondary rate limit" in response.text.lower():
            return _SECONDARY_LIMIT_S * 2.0**attempt
        return None
    return 2.0**attempt if status >= 500 else None


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else _SECONDARY_LIMIT_S


class GitHub:
    """What the tracker asks of GitHub. Every method raises GitHubError (a TrackerError)."""

    def __init__(
        self,
        account: Account,
        base_url: str = PUBLIC_API,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.login = account.login
        self._account = account
        self._session = _Session(_checked_url(base_url), clock, sleep)
        self._core = github3.GitHub(session=self._session)
        if account.token:
            self._session.token_auth(account.token)

    def enter(self, repository: str) -> None:
        """Log in as the App's installation in a repository; with a token there is nothing to do."""
        if not self._account.app_id:
            return
        # PyJWT refuses a number as the issuer, so both are text.
        key, app = self._account.private_key.encode(), self._account.app_id
        try:
            self._core.login_as_app(key, app, expire_in=_JWT_S)
        except (ValueError, jwt.PyJWTError) as error:
            raise GitHubError(f"the App's private key cannot be read ({error}); give it as PEM") from error
        found = self._read(f"repos/{_repository(repository)}/installation", Installation)
        url = f"app/installations/{found.id}/access_tokens"
        minted = convert(self._write("POST", url, {}), Minted, url)
        self._session.app_installation_token_auth(msgspec.structs.asdict(minted))

    def pulls_of(self, repository: str, commit: str) -> list[Pull]:
        """Pull requests that a commit belongs to, merged or open."""
        if not _SHA.fullmatch(commit):
            raise GitHubError(f"{commit!r} is no full hash of a commit")
        return list(self._list(f"repos/{_repository(repository)}/commits/{commit}/pulls", Pull))

    def thread(self, repository: str, number: int) -> Thread:
        return self._read(f"repos/{_repository(repository)}/issues/{number}", Thread)

    def comments(self, repository: str, number: int) -> Iterator[Comment]:
        """Every comment of an issue or pull request, oldest first."""
        return self._list(f"repos/{_repository(repository)}/issues/{number}/comments", Comment)

    def comment(self, repository: str, comment: int, etag: str = "") -> tuple[Comment | None, str]:
        """A comment and its ETag; None instead if it is still as the ETag says (costs no rate limit)."""
        path = f"repos/{_repository(repository)}/issues/comments/{comment}"
        headers = {"If-None-Match": etag} if etag else {}
        response = self._session.get(self._url(path), headers=headers)
        if response.status_code == 304:
            return None, etag
        return convert(answer(response), Comment, path), response.headers.get("ETag", "")

    def create_comment(self, repository: str, number: int, body: str) -> int:
        path = f"repos/{_repository(repository)}/issues/{number}/comments"
        return convert(self._write("POST", path, {"body": body}), Comment, path).id

    def edit_comment(self, repository: str, comment: int, body: str) -> None:
        self._write("PATCH", f"repos/{_repository(repository)}/issues/comments/{comment}", {"body": body})

    def delete_comment(self, repository: str, comment: int) -> None:
        """Only ever of a second comment of our own."""
        self._write("DELETE", f"repos/{_repository(repository)}/issues/comments/{comment}", None)

    def issues(self, repository: str) -> Iterator[Thread]:
        """Every issue, newest first, closed ones too."""
        query = {"state": "all", "sort": "created", "direction": "desc"}
        return self._list(f"repos/{_repository(repository)}/issues", Thread, query)

    def newest_issues(self, repository: str) -> list[Thread]:
        """One page of the newest."""
        path = f"repos/{_repository(repository)}/issues"
        response = self._session.get(self._url(path), params={"state": "all", "per_page": str(_NEWEST)})
        return convert(answer(response), list[Thread], path)

    def create_issue(self, repository: str, title: str, body: str) -> int:
        path = f"repos/{_repository(repository)}/issues"
        return convert(self._write("POST", path, {"title": title, "body": body}), Thread, path).number

    def edit_issue(self, repository: str, number: int, changes: dict[str, str]) -> None:
        """``changes``: of title, body, state, state_reason."""
        self._write("PATCH", f"repos/{_repository(repository)}/issues/{number}", changes)

    def _url(self, path: str) -> str:
        return f"{self._session.base_url}/{path}"

    def _read(self, path: str, kind: type[_T]) -> _T:
        return convert(answer(self._session.get(self._url(path))), kind, path)

    def _list(self, path: str, kind: type[_T], query: dict[str, str] | None = None) -> Iterator[_T]:
        params = {"per_page": "100", **(query or {})}
        pages = github3.structs.GitHubIterator(-1, self._url(path), dict, self._session, params)
        try:
            for count, item in enumerate(pages):
                if count == _MAX_LISTED:
                    raise GitHubError(f"{path}: more than {_MAX_LISTED} entries, the list may have no end")
                yield convert(item, kind, path)
        except github3.exceptions.GitHubError as error:
            raise refusal(error.response) from error
        except (github3.exceptions.GitHubException, ValueError, TypeError) as error:
            raise GitHubError(f"{path}: not the list that GitHub documents ({error})") from error

    def _write(self, method: str, path: str, body: dict[str, str] | None) -> object:
        data = None if body is None else msgspec.json.encode(body)
        return answer(self._session.request(method, self._url(path), data=data))


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    is_loopback = parts.hostname in ("127.0.0.1", "localhost")
    if parts.username or not parts.hostname or not (parts.scheme == "https" or is_loopback):
        raise GitHubError(f"{url!r} is no https address of an API, like {PUBLIC_API}")
    return url.rstrip("/")


def _repository(name: str) -> str:
    if not _REPOSITORY.fullmatch(name):
        raise GitHubError(f"{name!r} is no repository, like triton-lang/triton")
    return name
