"""A checkout with followed commits whose code is made up, and a stand-in for the GPU: a Python that is given
`-m benchmarks.session PLAN`, reads the plan and its store as a session does, and writes its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from builders import asv_document, record_document, write_asv, write_lists, write_object, write_record

from kernels.fingerprint import timing_fingerprint
from kernels.variants import Variant
from scripts.tracker.model import Commit
from scripts.tracker.workspace import CommitsWorkspace

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = [variant.value for variant in Variant]
VERSION = f"{timing_fingerprint().split('.')[0]}.metrics"  # of code of the same kernels
COMMITS = [Commit(f"{n:08x}" + "beefbeef" * 4, f"{n:08x}be") for n in range(1, 9)]
MACHINE = "h200-580.1"
DATE_MS = 1737547200000

# Kernels whose identity has "slow" in it take 1.2 ms, others 1 ms. GPU_TROUBLE: a mishap, by commit.
SESSION = """
import json, os, pathlib, sys
sys.path[:0] = [TESTS, ROOT]
from builders import block_document, session_document, subject_document
from scripts.tracker.model import Commit
plan_file = pathlib.Path(sys.argv[3])
plan = json.loads(plan_file.read_text())
with (pathlib.Path(LOG)).open("a") as log:
    print(json.dumps(plan), file=log)
trouble = json.loads(os.environ.get("GPU_TROUBLE", "{}")).get(plan["commits"][-1][1])
if trouble == "refused":
    sys.exit(1)
out = pathlib.Path(plan["out"])
for number, case in enumerate(plan["cases"]):
    subjects, first = [], {}
    for commit, label in plan["commits"]:
        for variant in plan["variants"]:
            record = json.loads((pathlib.Path(plan["store"]) / "records" / "cuda-90" / commit
                / f"hd{case['head_dim']}-causal-fp16" / f"{variant}.json").read_text())["record"]
            identity = [kernel["identity"] for kernel in record["kernels"]]
            key, ms = tuple(identity), 1.2 if "slow" in identity[0] else 1.0
            samples_s = [ms * 1e-3 * (1 + i % 3 * 1e-4) for i in range(8)]
            subject = subject_document(Commit(commit, label), variant, samples_s, identity=identity)
            if key in first:
                subject |= {"shared_with": first[key], "kernel_s": []}
            first.setdefault(key, [commit, variant])
            subjects.append(subject)
    changes = {"complete": trouble != "budget"}
    if trouble == "reused":
        changes["reused_from"] = "earlier"
    started_at = f"2026-12-01T13:00:{plan['seed'] % 60:02}+00:00"
    blocks = [block_document() for _ in range(8)]
    document = session_document(subjects, blocks, case=case, started_at=started_at, **changes)
    out.mkdir(parents=True, exist_ok=True)
    slug = f"hd{case['head_dim']}-causal-fp16-n{case['n_ctx']}-b{case['batch']}-h{case['heads']}.json"
    (out / slug).write_text(json.dumps(document))
sys.exit(1 if trouble == "budget" else 130 if trouble == "stopped" else 0)
"""


class GpuRig:
    """``root``: the checkout; ``python``: the stand-in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = CommitsWorkspace(root)
        for name in ("benchmarks", "kernels"):
            (root / name).symlink_to(ROOT / name)
        self.python = root / "python"
        self.log = root / "sessions.log"
        text = SESSION.replace("TESTS", repr(str(ROOT / "tests" / "unit")))
        text = text.replace("ROOT", repr(str(ROOT))).replace("LOG", repr(str(self.log)))
        self.python.write_text(f"#!{sys.executable}\n{text}")
        self.python.chmod(0o755)

    def follow(self, *codes: str | dict[int, str]) -> list[Commit]:
        """Commits of main, measured: what atomic_add's code is called, for both head_dims or for each."""
        commits = COMMITS[: len(codes)]
        write_lists(self.workspace.results, commits)
        for commit, code in zip(commits, codes, strict=True):
            for head_dim in (64, 128):
                name = code if isinstance(code, str) else code[head_dim]
                for variant in [*VARIANTS, "support"]:
                    self._record(commit, variant, head_dim, name if variant == "atomic_add" else "same")
            table: dict[str, dict[str, float | None]] = {v: {"dq_writes": 8.0} for v in VARIANTS}
            write_asv(self.workspace.results, asv_document(commit, table, (64, 128), VERSION))
        return commits

    def _record(self, commit: Commit, variant: str, head_dim: int, code: str) -> None:
        identity = f"{variant} {head_dim} {code}"
        store = self.workspace.evidence.root
        document = record_document(
            commit, variant, fingerprint=VERSION,
            case={"head_dim": head_dim, "causal": True, "dtype": "fp16"},
            objects={"cubin": write_object(store, identity.encode()), "ptx": write_object(store, b"text")},
        )  # fmt: skip
        document["kernels"][0]["identity"] = identity
        write_record(store, document)

    def sessions(self) -> list[dict[str, Any]]:
        """Plans that were run, in order."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def labels(self) -> list[list[str]]:
        return [[label for _, label in plan["commits"]] for plan in self.sessions()]

    def timed_files(self) -> list[str]:
        return sorted(p.name for p in (self.workspace.results / MACHINE).glob("*-session-*.json"))
