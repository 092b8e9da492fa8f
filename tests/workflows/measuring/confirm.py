"""In the place of scripts.confirm, on a machine without a GPU: where fresh sessions on an H200 were asked
about the very same kernels, what they said."""

import base64
import json
import sys
from pathlib import Path

request = json.loads(Path(sys.argv[sys.argv.index("--request") + 1]).read_text())
out = Path(sys.argv[sys.argv.index("--out") + 1])
identities = {}
for name, content in request["files"].items():
    if name.startswith("records/"):
        record = json.loads(base64.b64decode(content))["record"]
        identities[record["commit"], record["variant"]] = [k["identity"] for k in record["kernels"]]
ends = [request[side]["commit"] for side in ("before", "after")]
asked = {v: [identities[end, v] for end in ends] for v in (request["candidate"], request["reference"])}
for path in sorted(Path("benchmarks/recorded/confirmations").glob("*.json")):
    answer = json.loads(path.read_text())
    if {leg["variant"]: leg["kernels"] for leg in answer["legs"] if leg["variant"] in asked} == asked:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{request['finding']}.json").write_text(json.dumps({**answer, "finding": request["finding"]}))
        sys.exit(1)
sys.exit("error: no H200 was asked about these kernels")
