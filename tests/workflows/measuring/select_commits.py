"""In the place of scripts.select_commits: the two commits of the tiny history, a shard each, once."""

import json
import sys
from pathlib import Path

COMMITS = ["00000001" + "c0ffee00" * 4, "00000002" + "c0ffee00" * 4]

out = Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
for number, commit in enumerate(COMMITS, 1):
    (out / f"shard-{number:03}.txt").write_text(commit + "\n")
print(json.dumps({"shard": [f"shard-{number:03}.txt" for number, _ in enumerate(COMMITS, 1)]}))
