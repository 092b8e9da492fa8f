"""In the place of scripts.time_commits, on a machine without a GPU: of a commit that is a release, the
samples that an H200 took of that release, in the files that the real one writes. SCENE makes it go wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts.tracker.harness import describe_suite

RECORDED = Path("benchmarks/recorded")
SWEEP = Path("benchmarks/recorded_sessions/sweep/hd64-causal-fp16-n2048-b4-h8.json")
RESULTS = Path(".asv/commits/results")
assert "--commits" in sys.argv
git = ["git", "-C", ".cache/triton.git", "for-each-ref", "--format=%(objectname) %(refname:strip=2)"]
tags = subprocess.run([*git, "refs/tags"], capture_output=True, text=True, check=True).stdout.split()
label_of = dict(zip(tags[::2], (tag.removeprefix("v") for tag in tags[1::2]), strict=True))
compiled = {json.loads(path.read_text())["commit_hash"] for path in RESULTS.glob("codegen-*/*-*.json")}
theirs = {c["label"]: c["commit"] for c in json.loads((RECORDED / "commits.json").read_text())}
[machine] = [path for path in RECORDED.iterdir() if path.name.startswith("h200")]
# As if they had been taken now, by this checkout's kernels: asv publishes no results of others.
then = json.loads((RECORDED / "benchmarks.json").read_text())["controls.Canaries.track_seconds"]["version"]
now = describe_suite(Path(), "benchmarks.controls", "cuda:90").version
folder = RESULTS / machine.name
folder.mkdir(parents=True, exist_ok=True)
for commit in sorted(compiled & set(label_of)):
    source = theirs[label_of[commit]]
    text = (machine / f"{source[:8]}-session.json").read_text()
    text = text.replace(source, commit).replace(then, now)
    (folder / f"{commit[:8]}-session.json").write_text(text)
    if os.environ["SCENE"] == "damaged":
        (folder / f"{commit[:8]}-session.json").write_text(text[: len(text) // 2])
(folder / "machine.json").write_text((machine / "machine.json").read_text())
(RESULTS / "flops.json").write_text((RECORDED / "flops.json").read_text())
session = json.loads(SWEEP.read_text())
ours = {theirs[label_of[commit]]: commit for commit in compiled & set(label_of)}
session["subjects"] = [
    {**subject, "commit": ours[subject["commit"]], "label": ours[subject["commit"]][:10]}
    for subject in session["subjects"]
    if subject["commit"] in ours and subject["shared_with"] is None
]
out = Path(".cache/commit-sessions/0123456789ab")
out.mkdir(parents=True, exist_ok=True)
(out / SWEEP.name).write_text(json.dumps(session))
