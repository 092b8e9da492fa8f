"""What is measured of the commits of main, and what two commits have in common: the digest of their code."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite, is_complete
from scripts.tracker.results import CommitResults, codegen_measurements, read_commit_results
from scripts.tracker.store import EvidenceStore


def code_digest(results: CommitResults, evidence: EvidenceStore) -> str:
    """Equal for two commits whose kernels are the same, variant by variant. Raises TrackerError."""
    rows = []
    for m in codegen_measurements(results):
        record = evidence.load(m.target, m.commit, m.case, m.variant)
        identity = record.identity if record else ()
        rows.append((m.target, str(m.case), m.variant, m.status.value, identity))
    return hashlib.sha256(msgspec.json.encode(sorted(rows))).hexdigest()


def measured_commits(folder: Path, suite: Suite, evidence: EvidenceStore) -> dict[str, str]:
    """{commit: digest of its code} of every whole result in a machine's folder. What is damaged, incomplete
    or of other sources is not measured; the harness sets damaged files aside when it comes to them."""
    found = {}
    for path in sorted(folder.glob("*-*.json")):
        try:
            results = read_commit_results(path)
            if is_complete(results, suite, evidence):
                found[results.commit] = code_digest(results, evidence)
        except TrackerError:
            continue
    return found
