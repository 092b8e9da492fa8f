"""In the place of scripts.follow, in scenes that are about what comes after it: a worker that hands in what
the real one made of the same commits (COMPILED). SCENE makes it go wrong."""

import json
import os
import shutil
import sys
from pathlib import Path

COMPILED, SCENE = Path(os.environ["COMPILED"]), os.environ["SCENE"]
RESULTS, EVIDENCE = Path(".asv/commits/results"), Path(".cache/evidence")
shutil.copytree(COMPILED / "results", RESULTS)
shutil.copytree(COMPILED / "evidence", EVIDENCE)
newest = Path(sys.argv[sys.argv.index("--only") + 1]).read_text().split()[0]
[result] = RESULTS.glob(f"codegen-*/{newest[:8]}-*.json")
if SCENE == "poisoned":
    # A commit that nobody planned, with numbers to somebody's liking.
    text = result.read_text().replace(newest, "beef" * 10)
    result.with_name(result.name.replace(newest[:8], "beefbeef")).write_text(text)
if SCENE == "failing":
    result.unlink()
    shutil.rmtree(next(EVIDENCE.glob(f"records/*/{newest}")))
    failure = {"reason": "compiler error: no such header", "transient": False, "kind": "compiler error"}
    (RESULTS / "failures.json").write_text(json.dumps({"cuda:90": {newest: failure}}))
    sys.exit(1)
