"""GitHub's answers: the few fields that are needed of them, and refusals as errors. Pure."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests

from scripts.tracker.errors import TrackerError

_T = TypeVar("_T")


class GitHubError(TrackerError):
    """GitHub refused. ``status``: of HTTP, 0 if there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ForbiddenError(GitHubError):
    """The token may not do this here: read-only, not installed, or the conversation is locked."""


class MissingError(GitHubError):
    """No such thing, or the token may not see it."""


class OutcomeUnknownError(GitHubError):
    """A write that may or may not have happened."""


class User(msgspec.Struct, frozen=True):
    """An account."""

    login: str


class Comment(msgspec.Struct, frozen=True):
    """``user``: None where the account was deleted."""

    id: int
    user: User | None = None
    body: str | None = None


class Thread(msgspec.Struct, frozen=True):
    """An issue; a pull request is one too."""

    number: int
    state: str
    locked: bool = False
    user: User | None = None
    body: str | None = None


class _Repo(msgspec.Struct, frozen=True):
    full_name: str


class _Base(msgspec.Struct, frozen=True):
    ref: str
    repo: _Repo | None = None


class Pull(msgspec.Struct, frozen=True):
    """A pull request as the list of a commit's has it."""

    number: int
    base: _Base
    merged_at: str | None = None
    merge_commit_sha: str | None = None


class Installation(msgspec.Struct, frozen=True):
    """Of an App in a repository."""

    id: int


class Minted(msgspec.Struct, frozen=True):
    """A token of an installation; it lasts an hour."""

    token: str
    expires_at: str


def answer(response: requests.Response) -> Any:
    """The JSON of an answer, None if it has none; raises for a refusal."""
    if not 200 <= response.status_code < 300:
        raise refusal(response)
    try:
        return response.json() if response.content else None
    except ValueError as error:
        raise GitHubError(f"{urlsplit(response.url).path}: its answer is no JSON; try again later") from error


def refusal(response: requests.Response) -> GitHubError:
    """A refusal as the error that says what to do."""
    status, path = response.status_code, urlsplit(response.url).path
    try:
        said = str(response.json()["message"])[:200]
    except (ValueError, KeyError, TypeError):
        said = response.reason or "no reason given"
    words = f"{path}: {status} {said}"
    if status in (404, 410):
        return MissingError(f"{words}; it is gone, or the token may not see it", status)
    if status in (301, 302, 307, 308):
        return GitHubError(f"{words}; the repository has moved: name it as it is called now", status)
    if status in (401, 403):
        return ForbiddenError(f"{words}; the token may not do this", status)
    return GitHubError(words, status)


def convert(found: object, kind: type[_T], path: str) -> _T:
    """Raises GitHubError for what GitHub does not document."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise GitHubError(f"{path}: not the answer that GitHub documents ({error})") from error
