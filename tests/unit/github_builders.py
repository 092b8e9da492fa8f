"""Groups, answers and measured times as the GitHub side meets them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field, replace

from builders import COMMITS, HD64, NARROWER, NEW, OLD, VERSION, finding, history
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from scripts.tracker.addressees import Addressees
from scripts.tracker.comment import Renderer
from scripts.tracker.github import Account, GitHub
from scripts.tracker.groups import FindingGroup, group_findings
from scripts.tracker.ledger import Kind, Ledger
from scripts.tracker.measured import History
from scripts.tracker.model import (
    Case,
    Commit,
    Confirmation,
    Decision,
    Effect,
    Finding,
    Leg,
    MeasurementStatus,
    Suspect,
    TimingMeasurement,
    Verdict,
)
from scripts.tracker.posts import Judged, Post, Text, marker
from scripts.tracker.publish import Publisher
from scripts.tracker.recovery import Measured
from scripts.tracker.standing import Standing, State
from tests.github_double.server import GitHubDouble

THEIRS, OURS = "triton-lang/triton", "someone/atomwatch"
BOT, HOME_BOT = "atomwatch[bot]", "github-actions[bot]"
TIMED = replace(HD64, n_ctx=8192, batch=4, heads=8)
LIKELY = Suspect("a" * 40, None, 0.9, "touches NVIDIA lowering", "Change it (#4971)", "squash suffix")


def timed(
    verdict: Verdict = Verdict.REGRESSION,
    change: float = 0.4,
    reference: str = "inline_asm",
    case: Case = TIMED,
    before: Commit = OLD,
    after: Commit = NEW,
    suspects: tuple[Suspect, ...] = (),
) -> Finding:
    """A finding about GPU time alone."""
    plain = finding(verdict, reference=reference, case=case, before=before, after=after)
    return replace(
        plain,
        evidence=("timing",),
        ratio_before=1.2,
        ratio_after=1.2 * (1 + change),
        change=change,
        interval=(change - 0.01, change + 0.01),
        minimum_detectable_change=0.05,
        candidate_change=change,
        suspects=suspects,
        attribution="verified: the only commit" if suspects else "",
    )


def answer(
    about: Finding, decision: Decision = Decision.DIFFERENT, change: float = 0.38, sessions: int = 2
) -> Confirmation:
    effect = Effect(change, change - 0.02, change + 0.02)
    steady = Effect(0.001, -0.002, 0.004)
    kernels = (("code before",), ("code after",))
    legs = (
        Leg(about.candidate, 1e-3, 1e-3 * (1 + change), effect, kernels),
        Leg(about.reference, 1e-3, 1e-3, steady, kernels),
    )
    return Confirmation(
        1, about.id, decision, "time", "why", effect, legs, sessions, "NVIDIA H200", "580", "2026-12-01"
    )


def times(candidate_s: list[float], reference_s: float = 1e-3, session: str = "all 1796127570464") -> History:
    """atomic_add and inline_asm timed at the first commits, in one session unless each has its own name."""
    past = history()
    past.machines = {"h200": {"gpu": "NVIDIA H200", "driver": "580.159.04"}}
    past.timings = [
        TimingMeasurement(
            commit.commit,
            variant,
            TIMED,
            MeasurementStatus.OK,
            session,
            tuple(seconds * (1 + 1e-4 * block) for block in range(6)),
            VERSION,
            "h200",
        )
        for commit, own_s in zip(COMMITS, candidate_s, strict=False)
        for variant, seconds in (("atomic_add", own_s), ("inline_asm", reference_s))
    ]
    return past


def group_of(*findings: Finding) -> FindingGroup:
    [group] = group_findings(list(findings) or [finding(Verdict.REGRESSION, NARROWER)])
    return group


def judged(
    number: int | None = None,
    state: State = State.CONFIRMED,
    group: FindingGroup | None = None,
    recovered: Commit | None = None,
) -> Judged:
    numbers = () if number is None else (number,)
    return Judged(group or group_of(), Standing(state, (), recovered), Addressees(numbers, "the likeliest"))


def numbered(n: int) -> FindingGroup:
    """One of many groups, each of commits of its own."""
    before, after = (Commit(f"{side}{n:039x}", f"{n}.{side}") for side in "ab")
    return group_of(finding(Verdict.REGRESSION, NARROWER, before=before, after=after))


def plain(post: Post) -> Text:
    """A short text that changes with what is said."""
    words = [str(getattr(getattr(p, "standing", p), "state", getattr(p, "why", ""))) for p in post.parts]
    return Text("title", f"{marker(post.key)}\n{'; '.join(words)}\n")


def renderer(past: History | None = None) -> Renderer:
    found = past or history()
    return Renderer(found, Measured(found), OURS)


@dataclass
class Clock:
    """Time that passes only where somebody sleeps."""

    start: datetime.datetime = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
    passed_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.passed_s += seconds

    def now(self) -> datetime.datetime:
        return self.start + datetime.timedelta(seconds=self.passed_s)


def publisher(double: GitHubDouble, ledger: Ledger, clock: Clock) -> Publisher:
    """Speaks as the App upstream and as the workflow at home."""
    double.add_repository(THEIRS)
    double.add_repository(OURS)
    double.tokens.setdefault("app", (BOT, {THEIRS}))
    double.tokens.setdefault("home", (HOME_BOT, {OURS}))
    accounts = {Kind.COMMENT: Account(BOT, "app"), Kind.ISSUE: Account(HOME_BOT, "home")}
    hosts = {kind: GitHub(account, double.url, clock, clock.sleep) for kind, account in accounts.items()}
    return Publisher(hosts, ledger, clock.now, clock.sleep)


def key_pair() -> tuple[str, str]:
    """An App's: private and public, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public.decode()
