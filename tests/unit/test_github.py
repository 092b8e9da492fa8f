"""The thin module over github3, against the double: what it waits for, refuses, and never repeats."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from github_builders import key_pair
from openapi_core import OpenAPI

from scripts.tracker.github import Account, GitHub
from scripts.tracker.github_answers import ForbiddenError, GitHubError, MissingError, OutcomeUnknownError
from tests.github_double.openapi import problems
from tests.github_double.server import Exchange, Fault, GitHubDouble

THEIRS, OURS = "triton-lang/triton", "someone/atomwatch"
SHA = "a" * 40
BOT = "atomwatch[bot]"


@dataclass
class Clock:
    """Time that passes only where somebody sleeps."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host(double: GitHubDouble, clock: Clock) -> GitHub:
    double.add_pull(THEIRS, 7, SHA)
    double.add_repository(OURS)
    double.tokens["secret"] = (BOT, {THEIRS, OURS})
    return GitHub(Account(BOT, "secret"), double.url, clock, clock.sleep)


def writes(double: GitHubDouble) -> list[Exchange]:
    return [x for x in double.exchanges if x.method == "POST"]


def test_a_comment_is_made_read_changed_and_deleted(double: GitHubDouble, host: GitHub) -> None:
    made = host.create_comment(THEIRS, 7, "first")
    found, etag = host.comment(THEIRS, made)
    assert (found.body, found.user.login) == ("first", BOT)
    assert host.comment(THEIRS, made, etag) == (None, etag)
    host.edit_comment(THEIRS, made, "second")
    assert host.comment(THEIRS, made, etag)[0].body == "second"
    host.delete_comment(THEIRS, made)
    assert list(host.comments(THEIRS, 7)) == []
    with pytest.raises(MissingError, match="404 Not Found"):
        host.comment(THEIRS, made)


def test_an_issue_is_made_and_closed(double: GitHubDouble, host: GitHub) -> None:
    number = host.create_issue(OURS, "title", "body")
    host.edit_issue(OURS, number, {"state": "closed", "state_reason": "completed"})
    [found] = host.issues(OURS)
    assert (found.number, found.state, found.body) == (number, "closed", "body")


def test_all_pages_are_read(double: GitHubDouble, host: GitHub) -> None:
    for n in range(250):
        double.say(THEIRS, 7, "someone" if n % 2 else None, f"comment {n}")
    assert [c.body for c in host.comments(THEIRS, 7)] == [f"comment {n}" for n in range(250)]
    assert len(double.exchanges) == 3


def test_an_enterprise_has_its_api_under_a_path(double: GitHubDouble, clock: Clock) -> None:
    double.prefix = "/api/v3"
    double.add_pull(THEIRS, 7, SHA)
    double.tokens["secret"] = (BOT, {THEIRS})
    for n in range(101):
        double.say(THEIRS, 7, "someone", str(n))
    enterprise = GitHub(Account(BOT, "secret"), double.url + "/api/v3/", clock, clock.sleep)
    assert len(list(enterprise.comments(THEIRS, 7))) == 101
    enterprise.create_comment(THEIRS, 7, "x")
    double.prefix = "/elsewhere"
    with pytest.raises(GitHubError):
        enterprise.thread(THEIRS, 7)
    double.exchanges = [x for x in double.exchanges if x.status != 501]  # no path of GitHub's


def test_writes_are_a_second_apart(double: GitHubDouble, host: GitHub, clock: Clock) -> None:
    for n in range(3):
        host.create_comment(THEIRS, 7, str(n))
        list(host.comments(THEIRS, 7))
    assert clock.slept_s == [1.0, 1.0]


@pytest.mark.parametrize(
    ("fault", "waits_s"),
    [
        (Fault("POST", "comments", status=403, headers={"Retry-After": "7"}), [7.0]),
        (Fault("POST", "comments", status=429, headers={"Retry-After": "7"}, times=2), [7.0, 7.0]),
        (Fault("POST", "comments", status=403, message="You have exceeded a secondary rate limit"), [60.0]),
        (Fault("POST", "comments", status=429, times=2), [60.0, 120.0]),
        (Fault("POST", "comments", status=429, headers={"Retry-After": "Tue, 1 Dec"}), [60.0]),
    ],
)
def test_a_limit_is_waited_for_then_the_write_happens_once(
    double: GitHubDouble, host: GitHub, clock: Clock, fault: Fault, waits_s: list[float]
) -> None:
    double.faults.append(fault)
    host.create_comment(THEIRS, 7, "once")
    assert clock.slept_s == waits_s
    assert double.bodies(THEIRS, 7, BOT) == ["once"]


def test_the_primary_limit_is_waited_for_until_its_reset(
    double: GitHubDouble, host: GitHub, clock: Clock
) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 30)}
    double.faults.append(Fault("GET", "issues/7", status=403, headers=headers))
    assert host.thread(THEIRS, 7).number == 7
    [waited_s] = clock.slept_s
    assert 28 < waited_s <= 31


def test_too_long_a_wait_ends_the_run_with_a_remedy(double: GitHubDouble, host: GitHub, clock: Clock) -> None:
    double.faults.append(Fault("GET", "issues/7", status=403, headers={"Retry-After": "100000"}, times=9))
    with pytest.raises(GitHubError, match="run the same command later"):
        host.thread(THEIRS, 7)
    assert clock.slept_s == []


def test_a_limit_that_does_not_end_is_given_up(double: GitHubDouble, host: GitHub, clock: Clock) -> None:
    double.faults.append(Fault("POST", "comments", status=403, headers={"Retry-After": "5"}, times=99))
    with pytest.raises(ForbiddenError):
        host.create_comment(THEIRS, 7, "x")
    assert len(writes(double)) == 4


def test_a_refusal_for_good_is_not_tried_again(double: GitHubDouble, host: GitHub, clock: Clock) -> None:
    double.tokens["secret"] = (BOT, set())
    with pytest.raises(ForbiddenError, match="Resource not accessible"):
        host.create_comment(THEIRS, 7, "x")
    assert (len(writes(double)), clock.slept_s) == (1, [])


def test_reads_are_tried_again_after_a_server_error(double: GitHubDouble, host: GitHub, clock: Clock) -> None:
    double.faults += [Fault("GET", "issues/7", status=502), Fault("GET", "issues/7", "drop")]
    assert host.thread(THEIRS, 7).number == 7
    assert clock.slept_s == [1.0, 2.0]


def test_a_read_that_never_works_says_so(double: GitHubDouble, host: GitHub) -> None:
    double.faults.append(Fault("GET", "issues/7", status=503, times=99))
    with pytest.raises(GitHubError, match="503"):
        host.thread(THEIRS, 7)


@pytest.mark.parametrize("kind", ["status", "drop"])
@pytest.mark.parametrize("done", [True, False])
def test_a_write_of_unknown_outcome_is_sent_once(
    double: GitHubDouble, host: GitHub, kind: str, done: bool
) -> None:
    seen: list[Exchange] = []
    double.on_write = seen.append
    double.faults.append(Fault("POST", "comments", kind, done=done))
    with pytest.raises(OutcomeUnknownError):
        host.create_comment(THEIRS, 7, "once")
    assert len(seen) == int(done)
    assert double.bodies(THEIRS, 7, BOT) == ["once"] * done


def test_a_server_that_is_not_there_is_an_error_with_a_remedy() -> None:
    nobody = GitHub(Account(BOT, "secret"), "http://127.0.0.1:1", sleep=lambda _: None)
    with pytest.raises(GitHubError, match="Try again later"):
        nobody.thread(THEIRS, 7)


def test_the_token_goes_to_no_other_host(double: GitHubDouble, host: GitHub) -> None:
    link = '<http://127.0.0.2:9/steal>; rel="next"'
    double.faults.append(Fault("GET", "comments", status=200, headers={"Link": link}, message=""))
    with pytest.raises(GitHubError):
        list(host.comments(THEIRS, 7))
    double.exchanges.clear()  # that answer was no list, on purpose
    with pytest.raises(GitHubError, match="not followed"):
        host._session.get("http://127.0.0.2:9/steal")


def test_a_moved_repository_is_not_followed(double: GitHubDouble, host: GitHub) -> None:
    headers = {"Location": f"{double.url}/repositories/1/issues/7/comments"}
    double.faults.append(Fault("POST", "comments", status=301, headers=headers, message="Moved Permanently"))
    with pytest.raises(GitHubError, match="name it as it is called now"):
        host.create_comment(THEIRS, 7, "x")
    assert [x.method for x in double.exchanges] == ["POST"]
    double.exchanges.clear()  # GitHub documents no 301 for this


def test_netrc_and_proxies_of_the_environment_do_not_count(
    double: GitHubDouble, host: GitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login thief password thief\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    host.thread(THEIRS, 7)
    assert double.exchanges[0].headers["authorization"] == "token secret"


def test_the_version_of_the_api_is_pinned(double: GitHubDouble, host: GitHub) -> None:
    host.thread(THEIRS, 7)
    assert double.exchanges[0].headers["x-github-api-version"] == "2022-11-28"


@pytest.mark.parametrize("url", ["http://api.github.com", "https://me@api.github.com", "ftp://x", "x", ""])
def test_an_address_that_would_leak_the_token_is_refused(url: str) -> None:
    with pytest.raises(GitHubError, match="no https address"):
        GitHub(Account(BOT, "secret"), url)


@pytest.mark.parametrize("name", ["triton", "a/..", "a/b/c", "a/b?x", "../x", "a b/c", "", "a/."])
def test_a_name_that_is_no_repository_is_refused(double: GitHubDouble, host: GitHub, name: str) -> None:
    with pytest.raises(GitHubError, match="no repository"):
        host.thread(name, 7)
    assert double.exchanges == []


def test_a_hash_that_is_none_is_refused(host: GitHub) -> None:
    with pytest.raises(GitHubError, match="no full hash"):
        host.pulls_of(THEIRS, "main")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"null", b'{"number": "7"}'])
def test_an_answer_that_is_none_is_an_error(
    double: GitHubDouble, host: GitHub, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.github_double.server.json.dumps", lambda _: answer.decode())
    with pytest.raises(GitHubError, match=r"no JSON|not the answer"):
        host.thread(THEIRS, 7)
    double.exchanges.clear()


def test_an_app_logs_in_as_its_installation(double: GitHubDouble, clock: Clock) -> None:
    private, public = key_pair()
    double.add_pull(THEIRS, 7, SHA)
    double.app, double.installations = (4242, public), {THEIRS: 9}
    app = GitHub(Account(BOT, app_id="4242", private_key=private), double.url, clock, clock.sleep)
    app.enter(THEIRS)
    app.create_comment(THEIRS, 7, "from an App")
    assert double.bodies(THEIRS, 7, BOT) == ["from an App"]
    with pytest.raises(MissingError):
        app.enter(OURS)


def test_a_token_of_an_installation_that_ended_is_an_error(double: GitHubDouble, clock: Clock) -> None:
    private, public = key_pair()
    double.add_pull(THEIRS, 7, SHA)
    double.app, double.installations = (4242, public), {THEIRS: 9}
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    double.expires_at = past.strftime("%Y-%m-%dT%H:%M:%SZ")
    app = GitHub(Account(BOT, app_id="4242", private_key=private), double.url, clock, clock.sleep)
    app.enter(THEIRS)
    with pytest.raises(GitHubError, match="lasts an hour"):
        app.thread(THEIRS, 7)


def test_a_key_that_is_none_is_an_error(double: GitHubDouble) -> None:
    app = GitHub(Account(BOT, app_id="1", private_key="no key"), double.url)
    with pytest.raises(GitHubError, match="PEM"):
        app.enter(THEIRS)


def test_what_github_does_not_document_is_noticed(
    double: GitHubDouble, host: GitHub, description: OpenAPI
) -> None:
    """The check of the double against the description can fail."""
    host.create_comment(THEIRS, 7, "x")
    [x] = double.exchanges
    assert problems(description, [x]) == []
    wrong = [
        Exchange(x.method, x.path, x.query, x.headers, b'{"text": "x"}', 201, x.answer),
        Exchange(x.method, x.path, x.query, x.headers, x.body, 201, b'{"id": 1}'),
        Exchange(x.method, x.path, x.query, x.headers, x.body, 202, x.answer),
        Exchange("PUT", x.path, x.query, x.headers, x.body, 201, x.answer),
        Exchange(x.method, "/api/v3" + x.path, x.query, x.headers, x.body, 201, x.answer),
    ]
    assert [len(problems(description, [w])) for w in wrong] == [1] * 5
