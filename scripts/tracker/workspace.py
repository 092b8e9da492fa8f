"""Where things live in a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.tracker.store import EvidenceStore


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where things live in a checkout; see "What you see" in the README."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / ".asv" / "results"

    @property
    def staging(self) -> Path:
        return self.root / ".asv" / "staging"

    @property
    def logs(self) -> Path:
        return self.root / ".asv" / "logs"

    @property
    def report(self) -> Path:
        return self.root / ".asv" / "report"

    @property
    def cache(self) -> Path:
        return self.root / ".cache"

    @property
    def built_wheels(self) -> Path:
        """Wheels that were built from source, by commit. Of the checkout, whatever a cache is for."""
        return self.root / ".cache" / "built-wheels"

    @property
    def build_cache(self) -> Path:
        """Caches of compilers and toolchains."""
        return self.root / ".cache" / "build"

    @property
    def evidence(self) -> EvidenceStore:
        return EvidenceStore(self.cache / "evidence")

    @property
    def sessions(self) -> Path:
        """Files of GPU sessions, a folder each."""
        return self.cache / "sessions"

    @property
    def confirmations(self) -> Path:
        """Answers of `scripts.confirm`, a file a finding."""
        return self.results / "confirmations"

    @property
    def ledger(self) -> Path:
        """What was said on GitHub, a file a thread."""
        return self.results / "ledger"

    @property
    def requests(self) -> Path:
        """Suspicions that wait for a machine with a GPU."""
        return self.root / ".asv" / "requests"

    @property
    def recorded(self) -> Path:
        """Measured history that is shipped with the project."""
        return self.root / "benchmarks" / "recorded"

    @property
    def recorded_sessions(self) -> Path:
        """Files of the sessions behind the recorded history, with telemetry."""
        return self.root / "benchmarks" / "recorded_sessions"


class CommitsWorkspace(Workspace):
    """The same checkout, for commits of main: results of their own, because releases are a history of their
    own. Evidence, environments and caches are shared."""

    __slots__ = ()

    @property
    def results(self) -> Path:
        return self.root / ".asv" / "commits" / "results"

    @property
    def staging(self) -> Path:
        return self.root / ".asv" / "commits" / "staging"

    @property
    def logs(self) -> Path:
        return self.root / ".asv" / "commits" / "logs"

    @property
    def report(self) -> Path:
        return self.root / ".asv" / "commits" / "report"

    @property
    def sessions(self) -> Path:
        """Apart from those of releases: what is used again must have its results among these."""
        return self.cache / "commit-sessions"

    @property
    def recorded(self) -> Path:
        """No measured commits are shipped; the folder need not exist."""
        return self.root / "benchmarks" / "recorded_commits"

    @property
    def requests(self) -> Path:
        return self.root / ".asv" / "commits" / "requests"


def workspace_of(root: Path, commits: bool) -> Workspace:
    """Of the commits of main, or of releases: two histories, which are not mixed."""
    return CommitsWorkspace(root) if commits else Workspace(root)
