"""What the documentation shows is run: Python blocks whole, console blocks command by command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.broken_robot_datasets import write_good
from tests.patience import PATIENCE_S
from tests.speech import write_speech

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)


def blocks(page: Path, kind: str) -> list[str]:
    """The blocks of a kind that do not carry the word `norun`."""
    found = BLOCK.finditer(page.read_text())
    return [m["body"] for m in found if m["kind"] == kind and "norun" not in m["rest"]]


def commands(page: Path) -> list[str]:
    lines = [line for body in blocks(page, "console") for line in body.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    write_speech(tmp_path / "speech")
    write_good(tmp_path / "arm", "v2.1")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore"}
    for command in commands(page):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    code = "\n".join(blocks(page, "python"))
    if code:
        (tmp_path / "page.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "page.py"],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{page.name}\n{done.stdout}\n{done.stderr}"
    if not code and not commands(page):
        pytest.skip("the page shows nothing that runs")
