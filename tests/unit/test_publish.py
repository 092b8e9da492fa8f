"""Each thing is said once, whatever goes wrong on the way."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from builders import NEW
from github_builders import BOT, HOME_BOT, OURS, THEIRS, Clock, judged, numbered, plain, publisher

from scripts.tracker.github_answers import GitHubError
from scripts.tracker.ledger import Kind, Ledger, Progress, thread_key
from scripts.tracker.posts import Post, TakenBack, Text, Trouble, issue_of, marker
from scripts.tracker.publish import Publisher, Result
from scripts.tracker.standing import State
from tests.github_double.server import Fault, GitHubDouble

PR = 4971


def comment_post(state: State = State.CONFIRMED, number: int = PR) -> Post:
    key = thread_key(Kind.COMMENT, THEIRS, str(number))
    return Post(Kind.COMMENT, THEIRS, number, key, (judged(number, state, recovered=NEW),))


def issue_post(state: State = State.CONFIRMED) -> Post:
    return issue_of(judged(state=state, recovered=NEW), OURS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def speaker(double: GitHubDouble, ledger: Ledger, clock: Clock) -> Publisher:
    double.add_pull(THEIRS, PR, "a" * 40)
    return publisher(double, ledger, clock)


def said(double: GitHubDouble) -> list[str]:
    return [body.splitlines()[1] for body in double.bodies(THEIRS, PR, BOT)]


def writes(double: GitHubDouble) -> list[str]:
    return [x.method for x in double.exchanges if x.method != "GET"]


def test_created_then_unchanged_then_edited_in_place(double: GitHubDouble, speaker: Publisher) -> None:
    assert speaker.publish(comment_post(), plain).result is Result.CREATED
    assert speaker.publish(comment_post(), plain).result is Result.UNCHANGED
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.EDITED
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.UNCHANGED
    assert said(double) == ["recovered"]
    assert writes(double) == ["POST", "PATCH"]


def test_asking_again_costs_no_rate_limit(double: GitHubDouble, speaker: Publisher, clock: Clock) -> None:
    speaker.publish(comment_post(), plain)
    clock.passed_s += 3 * 86_400  # no twin turns up after so long
    for _ in range(3):
        speaker.publish(comment_post(), plain)
    assert [x.status for x in double.exchanges if x.method == "GET"][-2:] == [304, 304]


def test_a_copied_marker_of_a_stranger_is_not_ours(double: GitHubDouble, speaker: Publisher) -> None:
    stolen = f"{marker(comment_post().key)}\nstolen"
    first = double.say(THEIRS, PR, "stranger", stolen)
    double.say(THEIRS, PR, None, stolen)
    assert speaker.publish(comment_post(), plain).result is Result.CREATED
    assert double.comments[THEIRS][first]["body"] == stolen
    assert len(said(double)) == 1


def test_a_marker_quoted_in_our_own_text_is_no_thread(double: GitHubDouble, speaker: Publisher) -> None:
    double.say(THEIRS, PR, BOT, f"> {marker(comment_post().key)}\nquoted")
    assert speaker.publish(comment_post(), plain).result is Result.CREATED


def test_a_lost_ledger_is_found_again_on_page_three(double: GitHubDouble, speaker: Publisher) -> None:
    double.page_size = 10
    for n in range(25):
        double.say(THEIRS, PR, "someone", f"chat {n}")
    speaker.publish(comment_post(), plain)
    speaker.ledger.drop(comment_post().key)
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.EDITED
    assert said(double) == ["recovered"]


@pytest.mark.parametrize("kind", ["status", "drop"])
@pytest.mark.parametrize("post", [comment_post(), issue_post()], ids=["comment", "issue"])
def test_a_write_that_happened_without_an_answer_is_found(
    double: GitHubDouble, speaker: Publisher, kind: str, post: Post
) -> None:
    double.faults.append(Fault("POST", "comments|issues$", kind, done=True))
    outcome = speaker.publish(post, plain)
    assert outcome.result is Result.CREATED
    assert outcome.id
    assert speaker.publish(post, plain).result is Result.UNCHANGED
    assert len(double.comments[THEIRS]) + len(double.issues[OURS]) == 1


def test_a_write_that_did_not_happen_is_done_in_a_later_run(
    double: GitHubDouble, speaker: Publisher, clock: Clock
) -> None:
    double.faults.append(Fault("POST", "comments", done=False))
    assert speaker.publish(comment_post(), plain).result is Result.UNKNOWN
    assert speaker.publish(comment_post(), plain).result is Result.UNKNOWN  # the list may lag yet
    assert said(double) == []
    clock.passed_s += 601
    assert speaker.publish(comment_post(), plain).result is Result.CREATED
    assert len(said(double)) == 1


def test_a_write_that_happened_behind_a_lagging_list_is_not_repeated(
    double: GitHubDouble, speaker: Publisher, clock: Clock
) -> None:
    double.faults.append(Fault("POST", "comments", done=True))
    double.lag = 1
    assert speaker.publish(comment_post(), plain).result is Result.UNKNOWN
    assert speaker.publish(comment_post(), plain).result is Result.UNKNOWN
    double.lag = 0
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.EDITED
    assert said(double) == ["recovered"]


def test_a_run_that_died_after_its_claim_goes_on(
    double: GitHubDouble, speaker: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("scripts.tracker.github.GitHub.create_comment", die)
        with pytest.raises(KeyboardInterrupt):
            speaker.publish(comment_post(), plain)
    entry = speaker.ledger.get(comment_post().key)
    assert entry is not None
    assert (entry.progress, entry.id) == (Progress.CLAIMED, 0)
    double.say(THEIRS, PR, BOT, plain(comment_post()).body)  # it had gone out all the same
    assert speaker.publish(comment_post(), plain).result is Result.EDITED
    assert len(said(double)) == 1


def test_an_edit_of_unknown_outcome_is_made_again_in_the_next_run(
    double: GitHubDouble, speaker: Publisher
) -> None:
    speaker.publish(comment_post(), plain)
    double.faults.append(Fault("PATCH", "comments"))
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.UNKNOWN
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.EDITED
    assert said(double) == ["recovered"]


@pytest.mark.parametrize("lag", [0, 2])
def test_two_workers_on_two_machines_agree_on_one(double: GitHubDouble, tmp_path: Path, lag: int) -> None:
    double.add_pull(THEIRS, PR, "a" * 40)
    clocks = [Clock(), Clock()]
    workers = [publisher(double, Ledger(tmp_path / str(n)), clock) for n, clock in enumerate(clocks)]
    double.lag = lag
    gate = threading.Barrier(2)
    for worker in workers:
        create = worker.hosts[Kind.COMMENT].create_comment

        def together(*arguments: object, create: object = create) -> int:
            gate.wait(10)  # both have looked, and neither has posted
            return create(*arguments)  # type: ignore[operator]

        worker.hosts[Kind.COMMENT].create_comment = together  # type: ignore[method-assign, assignment]
    threads = [threading.Thread(target=w.publish, args=(comment_post(), plain)) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(said(double)) == (1 if lag == 0 else 2)
    double.lag = 0
    for clock, worker in zip(clocks, workers, strict=True):
        clock.passed_s += 3600
        worker.publish(comment_post(), plain)
    assert len(said(double)) == 1
    ids = {entry.id for worker in workers for entry in worker.ledger.entries()}
    assert ids == set(double.comments[THEIRS])


def test_two_processes_of_one_machine_wait_for_each_other(ledger: Ledger) -> None:
    order: list[str] = []

    def second() -> None:
        with Ledger(ledger.folder).locked():
            order.append("second")

    with ledger.locked():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_two_issues_of_two_workers_become_one_and_a_pointer(double: GitHubDouble, tmp_path: Path) -> None:
    workers = [publisher(double, Ledger(tmp_path / str(n)), Clock()) for n in range(2)]
    for worker in workers:
        worker.listed = []  # both had looked before either posted
    assert [w.publish(issue_post(), plain).result for w in workers] == [Result.CREATED, Result.EDITED]
    first, second = double.issues[OURS].values()
    assert (first["state"], second["state"]) == ("open", "closed")
    assert "The same as issue 1" in second["body"]
    assert {e.id for w in workers for e in w.ledger.entries()} == {1}


def test_a_locked_conversation_is_left_alone(double: GitHubDouble, speaker: Publisher) -> None:
    double.issues[THEIRS][PR]["locked"] = True
    outcome = speaker.publish(comment_post(), plain)
    assert outcome.result is Result.LOCKED
    assert writes(double) == []
    [entry] = speaker.ledger.entries()
    assert (entry.progress, "locked" in entry.note) == (Progress.REFUSED, True)
    double.issues[THEIRS][PR]["locked"] = False
    assert speaker.publish(comment_post(), plain).result is Result.CREATED


def test_a_deleted_pull_request_is_gone(speaker: Publisher) -> None:
    assert speaker.publish(comment_post(number=99), plain).result is Result.GONE
    assert [entry.progress for entry in speaker.ledger.entries()] == [Progress.REFUSED]


def test_a_read_only_token_is_asked_once(double: GitHubDouble, speaker: Publisher) -> None:
    double.tokens["app"] = (BOT, set())
    double.add_pull(THEIRS, 5000, "b" * 40)
    assert speaker.publish(comment_post(), plain).result is Result.FORBIDDEN
    assert speaker.publish(comment_post(number=5000), plain).result is Result.FORBIDDEN
    assert writes(double) == ["POST"]


def test_a_comment_that_somebody_deleted_stays_deleted(double: GitHubDouble, speaker: Publisher) -> None:
    speaker.publish(comment_post(), plain)
    double.comments[THEIRS].clear()
    assert speaker.publish(comment_post(State.RECOVERED), plain).result is Result.SILENCED
    assert speaker.publish(comment_post(), plain).result is Result.SILENCED
    assert said(double) == []


def test_what_a_maintainer_changed_stands_until_there_is_news(
    double: GitHubDouble, speaker: Publisher
) -> None:
    speaker.publish(comment_post(), plain)
    [theirs] = double.comments[THEIRS].values()
    theirs["body"] = "edited by a maintainer"
    assert speaker.publish(comment_post(), plain).result is Result.UNCHANGED
    assert theirs["body"] == "edited by a maintainer"


def test_too_long_a_text_is_refused_and_the_rest_goes_on(double: GitHubDouble, speaker: Publisher) -> None:
    def long(post: Post) -> Text:
        return Text("title", marker(post.key) + "\n" + "x" * 70_000)

    assert speaker.publish(comment_post(), long).result is Result.REFUSED
    assert speaker.publish(issue_post(), plain).result is Result.CREATED


def test_nobody_there_ends_the_run_and_claims_nothing(double: GitHubDouble, speaker: Publisher) -> None:
    double.faults.append(Fault("GET", "comments", "drop", times=99))
    with pytest.raises(GitHubError, match="Try again later"):
        speaker.publish(comment_post(), plain)
    assert speaker.ledger.entries() == []


def test_what_was_never_said_is_not_taken_back(double: GitHubDouble, speaker: Publisher) -> None:
    assert speaker.publish(comment_post(State.NOT_REPRODUCED), plain).result is Result.NOTHING
    assert (writes(double), speaker.ledger.entries()) == ([], [])


def test_an_issue_is_closed_when_over_and_opened_again_when_not(
    double: GitHubDouble, speaker: Publisher
) -> None:
    def state() -> tuple[str, str | None]:
        [issue] = double.issues[OURS].values()
        return issue["state"], issue.get("state_reason")

    assert speaker.publish(issue_post(), plain).result is Result.CREATED
    assert speaker.publish(issue_post(State.RECOVERED), plain).result is Result.EDITED
    assert state() == ("closed", "completed")
    assert speaker.publish(issue_post(), plain).result is Result.EDITED
    assert state()[0] == "open"
    gone = TakenBack(issue_post().told[0], "measured anew")
    assert speaker.publish(replace(issue_post(), parts=(gone,)), plain).result is Result.EDITED
    assert state() == ("closed", "not_planned")


def test_an_issue_that_a_person_closed_stays_closed(double: GitHubDouble, speaker: Publisher) -> None:
    speaker.publish(issue_post(State.EXACT), plain)
    double.issues[OURS][1]["state"] = "closed"
    assert speaker.publish(issue_post(State.CONFIRMED), plain).result is Result.EDITED
    assert double.issues[OURS][1]["state"] == "closed"


def test_the_trouble_issue_opens_and_closes(double: GitHubDouble, speaker: Publisher) -> None:
    def trouble(why: str) -> Result:
        post = Post(Kind.ISSUE, OURS, 0, thread_key(Kind.ISSUE, OURS, "t"), (Trouble(why),))
        return speaker.publish(post, plain).result

    assert trouble("") is Result.NOTHING
    assert trouble("a file is damaged") is Result.CREATED
    assert trouble("") is Result.EDITED
    assert double.issues[OURS][1]["state"] == "closed"
    assert double.issues[OURS][1]["user"]["login"] == HOME_BOT


def test_a_thousand_findings_no_duplicate_and_no_loss(
    double: GitHubDouble, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half under pull requests, half in issues, through every fault, over as many runs as it takes."""
    monkeypatch.setattr("os.fsync", lambda _: None)  # 4,000 of them are half a minute
    clock = Clock()
    posts = []
    for n in range(1000):
        one = judged(group=numbered(n))
        if n % 2:
            double.add_pull(THEIRS, 10_000 + n, f"{n:040x}", title=f"@everyone #{n} <script>")
            key = thread_key(Kind.COMMENT, THEIRS, str(10_000 + n))
            posts.append(Post(Kind.COMMENT, THEIRS, 10_000 + n, key, (one,)))
        else:
            posts.append(issue_of(one, OURS))
    target = "comments$|issues$"
    limits = [
        Fault("POST", target, status=403, headers={"Retry-After": "3"}, times=5),
        Fault("GET", target, status=502, times=3),
    ]
    lost = [
        Fault("POST", target, kind, done=done, times=10)
        for kind in ("status", "drop")
        for done in (True, False)
    ]
    for run in range(6):
        speaker = publisher(double, ledger, clock)
        double.faults = [*lost, *limits] if run == 0 else []
        results = [speaker.publish(post, plain).result for post in posts]
        clock.passed_s += 2 * 86_400
        if set(results) <= {Result.CREATED, Result.EDITED, Result.UNCHANGED}:
            break
    assert run == 1
    assert not any(fault.times for fault in lost)
    bodies = [c["body"] for c in double.comments[THEIRS].values()]
    bodies += [i["body"] for i in double.issues[OURS].values() if i["state"] == "open"]
    assert sorted(body.splitlines()[0] for body in bodies) == sorted(marker(post.key) for post in posts)
    assert {entry.key for entry in ledger.entries()} == {post.key for post in posts}
