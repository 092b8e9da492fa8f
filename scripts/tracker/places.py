"""Where a thread lives: a comment under a pull request, or an issue of our own; how it is found again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from scripts.tracker.github import GitHub
from scripts.tracker.github_answers import Comment, ForbiddenError, MissingError, Thread
from scripts.tracker.posts import Post, Text, marker
from scripts.tracker.standing import State


class LockedError(ForbiddenError):
    """Its owners closed the conversation to others."""


class Place(Protocol):
    """What a publisher does with a thread. Every method raises GitHubError."""

    def find(self) -> list[int]:
        """Threads of ours with the marker, oldest first."""

    def check(self) -> None:
        """Raises LockedError where nothing may be said."""

    def create(self, text: Text) -> int:
        """Say it for the first time; returns the id."""

    def read(self, identity: int, etag: str) -> tuple[str | None, str]:
        """What stands there, None if it is as the ETag says; and the ETag."""

    def edit(self, identity: int, text: Text, post: Post, closed: bool) -> bool:
        """Say it anew in place. ``closed``: whether we closed it before; returns whether it is closed now."""

    def drop(self, identity: int, kept: int) -> None:
        """Take away a second one of ours."""


class CommentPlace:
    """Under a pull request."""

    def __init__(self, host: GitHub, post: Post) -> None:
        self._host, self._repository, self._number = host, post.repository, post.number
        self._marker = marker(post.key)

    def find(self) -> list[int]:
        return _ours(self._host.comments(self._repository, self._number), self._marker, self._host.login)

    def check(self) -> None:
        if self._host.thread(self._repository, self._number).locked:
            raise LockedError(f"pull request {self._number} is locked")

    def create(self, text: Text) -> int:
        return self._host.create_comment(self._repository, self._number, text.body)

    def read(self, identity: int, etag: str) -> tuple[str | None, str]:
        found, etag = self._host.comment(self._repository, identity, etag)
        return (found.body or "" if found else None), etag

    def edit(self, identity: int, text: Text, post: Post, closed: bool) -> bool:
        self._host.edit_comment(self._repository, identity, text.body)
        return False

    def drop(self, identity: int, kept: int) -> None:
        try:
            self._host.delete_comment(self._repository, identity)
        except MissingError:
            return  # the other worker did


class IssuePlace:
    """An issue of our own repository. Issues cannot be deleted, so a second one is closed and says so."""

    def __init__(self, host: GitHub, post: Post, listed: Iterable[Thread]) -> None:
        self._host, self._repository = host, post.repository
        self._marker = marker(post.key)
        self._listed = listed

    def find(self) -> list[int]:
        return _ours(self._listed, self._marker, self._host.login)

    def check(self) -> None:
        """Our own repository."""

    def create(self, text: Text) -> int:
        return self._host.create_issue(self._repository, text.title, text.body)

    def read(self, identity: int, etag: str) -> tuple[str | None, str]:
        return self._host.thread(self._repository, identity).body or "", ""

    def edit(self, identity: int, text: Text, post: Post, closed: bool) -> bool:
        """Close it when all is over, and open it again only if we closed it: people's decisions stand."""
        changes = {"title": text.title, "body": text.body}
        if post.is_over and not closed:
            recovered = any(one.standing.state is State.RECOVERED for one in post.groups)
            reason = "completed" if recovered else "not_planned"
            changes |= {"state": "closed", "state_reason": reason}
        elif closed and not post.is_over:
            changes |= {"state": "open"}
        self._host.edit_issue(self._repository, identity, changes)
        return post.is_over

    def drop(self, identity: int, kept: int) -> None:
        body = f"The same as issue {kept}, which goes on.\n"
        changes = {"body": body, "state": "closed", "state_reason": "not_planned"}
        self._host.edit_issue(self._repository, identity, changes)


def _ours(found: Iterable[Comment | Thread], mark: str, login: str) -> list[int]:
    """A marker alone proves nothing: anybody can copy it."""
    return sorted(
        one.id if isinstance(one, Comment) else one.number
        for one in found
        if one.user and one.user.login.lower() == login.lower() and (one.body or "").startswith(mark)
    )
