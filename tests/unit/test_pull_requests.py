"""Numbers in subjects: which pull request brought a commit, and which it undoes."""

import msgspec
import pytest
from history_builders import landed

from scripts.tracker.github_answers import GitHubError, Pull
from scripts.tracker.pull_requests import (
    CHECKED,
    MERGE,
    NONE,
    SQUASH,
    UNMERGED,
    MergedPullRequests,
    PullRequest,
    SquashSuffix,
    reverted_by,
)


@pytest.mark.parametrize(
    ("subject", "number", "how", "others"),
    [
        ("[BACKEND] Use vectorized atomics on Hopper (#4971)", 4971, SQUASH, ()),
        ('Revert "[BACKEND] Update llvm (#3109)" (#3131)', 3131, SQUASH, ()),
        ('Revert "[BACKEND] Update llvm (#3109)"', None, NONE, ()),
        ("Update LLVM (#4106) (#4107)", 4107, SQUASH, (4106,)),
        ("[release/3.3.x] Fix it (#6000)(#6100)", 6100, SQUASH, (6000,)),
        ("Reintroduce \"Fix (#4873)\" (#4973)", 4973, SQUASH, ()),
        ("Merge pull request #123 from someone/branch", 123, MERGE, ()),
        ("Fix #123 at last", None, NONE, ()),
        ("Follow-up to (#123) in the lowering", None, NONE, ()),
        ("[backend][NVIDIA] Attach DataLayout", None, NONE, ()),
        ("Fix (#0)", None, NONE, ()),
        ("Fix (#123456789012)", None, NONE, ()),
        ("Fix (#\u0663\u0664)", None, NONE, ()),
        ("", None, NONE, ()),
    ],
)  # fmt: skip
def test_of(subject: str, number: int | None, how: str, others: tuple[int, ...]) -> None:
    commit = landed(1)
    commit = type(commit)(commit.sha, commit.parents, commit.date, subject, commit.files)
    assert SquashSuffix().of(commit) == PullRequest(number, how, others)


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ('Revert "[BACKEND] Update llvm (#3109)" (#3131)', 3109),
        ('Revert "Revert "Fix (#1)" (#2)" (#3)', 2),
        ('Revert "Fix" (#3131)', None),
        ("Fix (#3109) (#3131)", None),
    ],
)
def test_reverted_by(subject: str, number: int | None) -> None:
    assert reverted_by(subject) == number


def test_a_long_hostile_subject_takes_no_time() -> None:
    subject = "(#1) " * 200_000 + "x"
    assert SquashSuffix().of(landed(1, subject)).number is None


class Host:
    """Answers with set pull requests, or with an error."""

    def __init__(self, *answers: dict[str, object]) -> None:
        self.answers = answers

    def pulls_of(self, repository: str, commit: str) -> list[Pull]:
        assert (repository, commit) == ("triton-lang/triton", landed(1).sha)
        if not self.answers:
            raise GitHubError("no answer")
        return [msgspec.convert(answer, Pull) for answer in self.answers]


def pull(**changed: object) -> dict[str, object]:
    base = {"ref": "main", "repo": {"full_name": "Triton-Lang/triton"}}
    merged = {"merged_at": "2024-06-01T12:00:00Z", "merge_commit_sha": landed(1).sha}
    return {"number": 4971, "base": base, **merged, **changed}


FORK = {"ref": "main", "repo": {"full_name": "someone/triton"}}
RELEASE = {"ref": "release/3.3.x", "repo": {"full_name": "triton-lang/triton"}}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([pull()], PullRequest(4971, CHECKED)),
        ([pull(number=1, merged_at=None), pull()], PullRequest(4971, CHECKED)),
        ([pull(merge_commit_sha="b" * 40)], PullRequest(None, UNMERGED)),
        ([pull(base=FORK)], PullRequest(None, UNMERGED)),
        ([pull(base=RELEASE)], PullRequest(None, UNMERGED)),
        ([pull(base={"ref": "main", "repo": None})], PullRequest(None, UNMERGED)),
        ([pull(), pull(number=2)], PullRequest(None, UNMERGED, (4971, 2))),
        ([], PullRequest(4001, SQUASH)),
    ],
)
def test_only_the_pull_request_that_the_commit_is_the_merge_of_counts(
    answers: list[dict[str, object]], expected: PullRequest
) -> None:
    assert MergedPullRequests(Host(*answers), "triton-lang/triton").of(landed(1)) == expected
