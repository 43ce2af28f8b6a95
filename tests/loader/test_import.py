"""What importing the loader costs, and what it says without torch."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_index_needs_no_torch() -> None:
    code = "import sys, datalake.loader.batching; print('torch' in sys.modules)"
    assert run(code) == "False"


def test_without_torch_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["torch"] = None  # As if it were not installed.
from datalake import MissingPackageError
for package, name in (("datalake.loader", "Loader"), ("curation.probe", "train")):
    try:
        getattr(__import__(package, fromlist=[name]), name)
    except MissingPackageError as error:
        print(error)
"""
    said = run(code).splitlines()
    assert "datalake[torch]" in said[0]
    assert "datalake[probe]" in said[1]
