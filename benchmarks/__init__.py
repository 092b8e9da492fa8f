"""The asv suites. asv imports them through an importer that knows only this package."""

import sys
from pathlib import Path

# First, not last: an installed top-level `kernels` package would win otherwise. asv drops PYTHONPATH.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
