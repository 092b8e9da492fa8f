"""In the place of scripts.follow: a worker that measured its commit in no time. SCENE makes it go wrong."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, "tests/unit")
from builders import COMMITS, FACTS, asv_document, write_asv, write_lists

RESULTS = Path(".asv/results")
SCENE = os.environ["SCENE"]
[wanted] = Path(sys.argv[sys.argv.index("--only") + 1]).read_text().split()
[commit] = [c for c in COMMITS if c.commit == wanted]
write_lists(RESULTS)
is_new = commit == COMMITS[1]
if SCENE == "failing" and is_new:
    failure = {"reason": "error: no such header", "transient": False}
    (RESULTS / "failures.json").write_text(json.dumps({"cuda:90": {commit.commit: failure}}))
    sys.exit(1)
table = {v: {"dq_vector_width": 1.0 if is_new and v == "atomic_add" else 4.0} for v in FACTS}
write_asv(RESULTS, asv_document(commit, table))
if SCENE == "poisoned" and is_new:
    # A commit that nobody planned, with numbers to somebody's liking.
    write_asv(RESULTS, asv_document(COMMITS[2], table))
