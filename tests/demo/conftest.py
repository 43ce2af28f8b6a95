from __future__ import annotations

import sys
from pathlib import Path

# The demo is a script with a package beside it, not part of the distribution.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "demo"))
