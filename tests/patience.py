"""How long a test waits for what takes seconds."""

from typing import Final

__all__ = ["PATIENCE_S"]

PATIENCE_S: Final = 300
"""Not a measure of anything: a busy machine is no failure, and a hang still ends."""
