"""Say each thing once. The ledger is asked first, then GitHub by marker and author, and only then is it said.

A write of unknown outcome is looked up, never repeated; what cannot be found waits for the next run, because
a list may lag. Two workers that both posted agree on the older one.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from scripts.tracker.github import GitHub
from scripts.tracker.github_answers import (
    ForbiddenError,
    GitHubError,
    MissingError,
    OutcomeUnknownError,
    Thread,
)
from scripts.tracker.ledger import SCHEMA, Entry, Kind, Ledger, Progress, digest
from scripts.tracker.places import CommentPlace, IssuePlace, LockedError, Place
from scripts.tracker.posts import Post, Text

# How long a list of GitHub's may lag behind a write: a claim that old without a trace was never carried out.
_LAG = datetime.timedelta(minutes=10)
# While a thread is that young, a second one of ours may still turn up.
_YOUNG = datetime.timedelta(days=1)
_LOOK_AFTER_S = (2.0, 5.0, 15.0)


class Result(StrEnum):
    """What became of a post; see the README."""

    CREATED = "created"
    EDITED = "edited"
    UNCHANGED = "unchanged"
    NOTHING = "nothing to take back"
    SILENCED = "somebody deleted it: not said again"
    LOCKED = "the conversation is locked"
    GONE = "the pull request is gone, or the token may not see it"
    FORBIDDEN = "the token may not write there"
    REFUSED = "GitHub refused it"
    UNKNOWN = "outcome unknown: looked up in the next run"


# With these the thread does not hold what it should, and our own issue says it instead.
UNHEARD = (Result.SILENCED, Result.LOCKED, Result.GONE, Result.FORBIDDEN, Result.REFUSED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one post. ``id``: of the comment or issue, 0 if there is none."""

    post: Post
    result: Result
    why: str = ""
    id: int = 0


@dataclass(slots=True)
class Publisher:
    """Carries out posts. ``hosts``: who speaks, by kind of thread. Hold the ledger's lock around it."""

    hosts: Mapping[Kind, GitHub]
    ledger: Ledger
    now: Callable[[], datetime.datetime]
    sleep: Callable[[float], None]
    shut: dict[Kind, str] = field(default_factory=dict)
    listed: list[Thread] | None = None

    def publish(self, post: Post, render: Callable[[Post], Text]) -> Outcome:
        """Raises GitHubError only where GitHub cannot be reached at all."""
        entry = self.ledger.get(post.key)
        if entry is not None and entry.progress is Progress.SILENCED:
            return Outcome(post, Result.SILENCED)
        if post.kind in self.shut:
            return Outcome(post, Result.FORBIDDEN, self.shut[post.kind])
        try:
            return self._say(post, entry, render(post))
        except LockedError as error:
            return self._refused(post, Result.LOCKED, error)
        except MissingError as error:
            return self._refused(post, Result.GONE, error)
        except ForbiddenError as error:
            self.shut[post.kind] = str(error)
            return self._refused(post, Result.FORBIDDEN, error)
        except OutcomeUnknownError as error:
            return Outcome(post, Result.UNKNOWN, str(error))
        except GitHubError as error:
            if not 400 <= error.status < 500:
                raise
            return self._refused(post, Result.REFUSED, error)

    def _say(self, post: Post, entry: Entry | None, text: Text) -> Outcome:
        place = self._place(post)
        if entry is not None and entry.id:
            return self._renew(post, entry, place, text)
        found = place.find()
        if found:
            said = self._entry(post, entry, Progress.SAID, found[0])
            self.ledger.put(said)
            return self._renew(post, said, place, text)
        if post.is_over:
            self.ledger.drop(post.key)
            return Outcome(post, Result.NOTHING)
        if entry is not None and entry.progress is Progress.CLAIMED and self._age(entry) < _LAG:
            return Outcome(post, Result.UNKNOWN, "claimed a moment ago, and no list shows it yet")
        place.check()
        return self._create(post, place, text)

    def _create(self, post: Post, place: Place, text: Text) -> Outcome:
        claim = self._entry(post, None, Progress.CLAIMED, 0)
        self.ledger.put(claim)
        try:
            identity = place.create(text)
        except OutcomeUnknownError as error:
            found = self._look(place, post)
            if not found:
                return Outcome(post, Result.UNKNOWN, str(error))
            identity = found[0]
        said = msgspec.structs.replace(claim, progress=Progress.SAID, id=identity, digest=digest(text.body))
        self.ledger.put(said)
        kept = self._merge(said, post)
        if kept.id != identity:
            return self._renew(post, kept, place, text)
        return Outcome(post, Result.CREATED, id=identity)

    def _look(self, place: Place, post: Post) -> list[int]:
        for seconds in _LOOK_AFTER_S:
            self.sleep(seconds)
            if found := self._fresh(post).find():
                return found
        return []

    def _renew(self, post: Post, entry: Entry, place: Place, text: Text) -> Outcome:
        """Edit what was said, if there is something new. What people changed in it stands till then."""
        try:
            _, etag = place.read(entry.id, entry.etag)
        except MissingError:
            # Another worker may have taken it away as the second of two; else somebody wants silence.
            others = self._fresh(post).find()
            if not others:
                self.ledger.put(msgspec.structs.replace(entry, progress=Progress.SILENCED, note="deleted"))
                return Outcome(post, Result.SILENCED)
            etag = ""
            entry = msgspec.structs.replace(entry, id=others[0], digest="")
        if entry.kind is Kind.COMMENT and self._age(entry) < _YOUNG:
            entry = self._merge(entry, post)
        if digest(text.body) == entry.digest:
            self.ledger.put(msgspec.structs.replace(entry, etag=etag, told=post.told))
            return Outcome(post, Result.UNCHANGED, id=entry.id)
        closed = place.edit(entry.id, text, post, entry.closed)
        self.ledger.put(
            msgspec.structs.replace(
                entry,
                progress=Progress.SAID,
                digest=digest(text.body),
                etag="",
                changed_at=self.now(),
                closed=closed,
                told=post.told,
                note="",
            )
        )
        return Outcome(post, Result.EDITED, id=entry.id)

    def _merge(self, entry: Entry, post: Post) -> Entry:
        """Of several threads of ours the oldest stays; every worker decides the same."""
        place = self._fresh(post)
        first, *rest = sorted({entry.id, *place.find()})
        for identity in rest:
            place.drop(identity, first)
        if first == entry.id:
            return entry
        # What stands there is another worker's text: it is said anew.
        entry = msgspec.structs.replace(entry, id=first, digest="", etag="")
        self.ledger.put(entry)
        return entry

    def _place(self, post: Post) -> Place:
        host = self.hosts[post.kind]
        if post.kind is Kind.COMMENT:
            return CommentPlace(host, post)
        if self.listed is None:
            self.listed = list(host.issues(post.repository))
        return IssuePlace(host, post, self.listed)

    def _fresh(self, post: Post) -> Place:
        """A place that asks again; of issues, only for the newest."""
        host = self.hosts[post.kind]
        if post.kind is Kind.COMMENT:
            return CommentPlace(host, post)
        return IssuePlace(host, post, [*host.newest_issues(post.repository), *(self.listed or [])])

    def _refused(self, post: Post, result: Result, error: GitHubError) -> Outcome:
        entry = self.ledger.get(post.key)
        if entry is None or not entry.id:
            refused = self._entry(post, entry, Progress.REFUSED, 0)
            self.ledger.put(msgspec.structs.replace(refused, note=f"{result.value}: {error}"[:300]))
        return Outcome(post, result, str(error))

    def _entry(self, post: Post, old: Entry | None, progress: Progress, identity: int) -> Entry:
        return Entry(
            schema=SCHEMA,
            kind=post.kind,
            repository=post.repository,
            number=post.number,
            key=post.key,
            progress=progress,
            claimed_at=old.claimed_at if old and progress is Progress.SAID else self.now(),
            id=identity,
            told=post.told,
        )

    def _age(self, entry: Entry) -> datetime.timedelta:
        return self.now() - entry.claimed_at
