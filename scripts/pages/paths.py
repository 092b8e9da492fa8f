"""Where each page of the site is. Pure; labels and hashes of other machines become plain file names."""

from __future__ import annotations

import re

from scripts.tracker.groups import FindingGroup
from scripts.tracker.model import Case, Commit

_RELEASE = re.compile(r"v?\d+(\.\d+)+")
_LONGEST = 60


def commit_page(commit: Commit) -> str:
    return f"commits/{_safe(commit.label)}_{_safe(commit.commit)[:12]}.html"


def case_page(case: Case) -> str:
    return f"cases/{case_name(case)}.html"


def code_page(target: str, case: Case) -> str:
    return f"code/{_safe(target)}_{_safe(case.slug)}.html"


def finding_page(group: FindingGroup) -> str:
    return f"findings/{group.slug}.html"


def case_name(case: Case) -> str:
    return _safe(f"{case.slug}-n{case.n_ctx}")


def _safe(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "-" for c in text)[:_LONGEST]


def is_release(commit: Commit) -> bool:
    return _RELEASE.fullmatch(commit.label) is not None
