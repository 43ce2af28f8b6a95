"""`make study`: what ways to choose training data are worth, on real and generated spoofs.

Builds a corpus (`study_corpus`) of a real pool among generated domains of unequal size, ingests
and embeds it, and runs `curate study` on the designs given. Every stage is a command of the
toolkit, printed before it runs; what is done already is not done again. Everything goes into
`.study/`; what the demo fetched is not fetched again.

The real pool is no part of the project: without it the script says so and ends.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
# The human speech and the generators are the demo's.
sys.path.append(str(HERE.parent / "demo"))

from demo_corpus.debian import PackageFolder  # noqa: E402
from study_corpus.build import build_study_corpus  # noqa: E402
from study_corpus.plan import PACKAGES  # noqa: E402

from datalake.cli import console  # noqa: E402
from datalake.errors import LakeError, StoppedError  # noqa: E402

_BIN: Final = Path(sys.executable).parent
_POOL: Final = HERE.parents[1].parent / "shared" / "data" / "speech"


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("designs", nargs="*", type=Path, help="design files; none: mlp.yaml")
    parser.add_argument("--folder", type=Path, default=Path(".study"), help="where it all goes")
    parser.add_argument("--pool", type=Path, default=_POOL, help="the real pool")
    parser.add_argument("--packages", type=Path, default=Path(".demo/packages"))
    asked = parser.parse_args()
    if not (asked.pool / "manifest.csv").is_file():
        print(f"skipped: there is no real pool at {asked.pool} (--pool)", file=sys.stderr)
        return 0
    designs = asked.designs or [HERE / "mlp.yaml"]
    try:
        _run(designs, asked.folder, asked.pool, asked.packages)
    except LakeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted. Run it again: it goes on where it stopped.", file=sys.stderr)
        return 130
    return 0


def _run(designs: list[Path], folder: Path, pool: Path, packages: Path) -> None:
    PackageFolder(packages).fetch(
        PACKAGES, lambda name: print(f"fetch {name}", file=sys.stderr, flush=True)
    )
    with console.Progress("build corpus", unit="utterances") as progress:
        corpus = build_study_corpus(
            pool,
            folder,
            packages,
            on_progress=lambda done, total: progress.update(done, total=total),
        )
    lake = folder / "lake"
    _command("datalake", "ingest", corpus, "pool", "--connector", "manifest", lake=lake)
    # Another version of the table would train every cell anew.
    if "lfcc_stats" not in _command("datalake", "info", "pool", "--json", lake=lake, quietly=True):
        _command("curate", "embed", "pool", "--with", "lfcc_stats", lake=lake)
    for design in designs:
        out = folder / design.stem
        sys.stdout.write(_command("curate", "study", design, "--out", out, lake=lake))


def _command(program: str, *arguments: str | Path, lake: Path, quietly: bool = False) -> str:
    """Run a command of the toolkit; what it prints to stdout."""
    words = [program, *map(str, arguments), "--lake", str(lake)]
    if not quietly:
        print(f"$ {shlex.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [_BIN / program, *words[1:]],
        stdout=subprocess.PIPE,
        text=True,
        # Cells take a thread each.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise StoppedError(
            "A stage of the study failed",
            where=shlex.join(words),
            found=f"exit code {done.returncode}; its message is above",
            fix="Run it again: it goes on where it stopped",
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
