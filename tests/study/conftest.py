from __future__ import annotations

import sys
from pathlib import Path

# Scripts with packages beside them, not parts of the distribution.
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS / "study"), str(SCRIPTS / "demo")]
