"""In the place of scripts.merge_results: lays the files of workers over each other."""

import json
import shutil
import sys
from pathlib import Path

RESULTS = Path(".asv/results")
for folder in sys.argv[1:]:
    for path in Path(folder, "results").rglob("*.json"):
        target = RESULTS / path.relative_to(Path(folder, "results"))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name == "failures.json" and target.exists():
            both = json.loads(target.read_text()) | json.loads(path.read_text())
            target.write_text(json.dumps(both))
        else:
            shutil.copy(path, target)
