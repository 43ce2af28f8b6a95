"""The configurations in `configs/`, each by the command it is for, on a corpus made on the spot."""

from __future__ import annotations

import csv
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalake.lake import open_lake
from tests.cli.conftest import Cli

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SAMPLE_RATE_HZ = 16_000
GENERATORS = {None: 24, "hifigan-v1": 12, "melgan": 20, "vits": 6}


def write_wav(path: Path, rng: np.random.Generator, frequency_hz: float) -> None:
    time_s = np.arange(SAMPLE_RATE_HZ // 2) / SAMPLE_RATE_HZ
    signal = 0.3 * np.sin(2 * np.pi * frequency_hz * time_s) + 0.05 * rng.normal(size=len(time_s))
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
        file.writeframes((signal * 32767).clip(-32768, 32767).astype("<i2").tobytes())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest and its files: bona fide rows of one speaker and spoofs of three generators."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    with (folder / "manifest.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "source", "generator", "label", "speaker"])
        for number, (generator, count) in enumerate(GENERATORS.items()):
            label = "spoof" if generator else "bonafide"
            for index in range(count):
                name = f"{generator or 'real'}_{index:02d}.wav"
                write_wav(folder / name, rng, 200.0 + 150 * number + index)
                rows.writerow([name, "tones", generator or "", label, "s1"])
    return folder


def run(cli: Cli, lake: Path, *args: str | Path, program: str = "datalake") -> dict[str, Any]:
    done = cli(*args, "--lake", lake, "--json", program=program)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert isinstance(facts, dict)
    return facts


def test_each_configuration_does_its_job(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(cli, lake, "ingest", corpus, "--config", CONFIGS / "ingest.yaml", "--quiet")
    table = open_lake(lake)["corpus"]
    assert table.count_rows() == sum(GENERATORS.values())
    assert table.count_rows("speaker_id = 's1' AND language = 'en'") == sum(GENERATORS.values())

    select = run(cli, lake, "select", "--config", CONFIGS / "select.yaml", program="curate")
    # 10 of each generator that has them, 6 of vits, and as many bona fide rows as there are spoofs.
    assert select["name"] == "doss10"
    assert select["num_rows"] == (10 + 10 + 6) + 24
    # The command line wins over the file.
    smaller = run(
        cli, lake, "select", "--config", CONFIGS / "select.yaml", "--cap", "2", "--as", "doss2",
        program="curate",
    )  # fmt: skip
    assert smaller["num_rows"] == 6 + 6
    assert open_lake(lake).selections() == ["doss10", "doss2"]

    probe = run(
        cli, lake, "curate", "probe", "--config", CONFIGS / "probe.yaml",
        "--steps", "2", "--batch-size", "8", "--seconds", "0.5", "--resamples", "10",
        "--device", "cpu", "--quiet",
    )  # fmt: skip
    assert probe["settings"] == {**probe["settings"], "num_steps": 2, "learning_rate": 0.001}
    assert "hifigan-v1" in json.dumps(probe["by_generator"])


def test_the_environment_wins_over_the_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "head.yaml").write_text(f"name: corpus\nlake: {tmp_path / 'none'}\nrows: 1\n")
    done = cli("head", "--config", "head.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 1


def test_every_configuration_is_executed() -> None:
    assert {path.name for path in CONFIGS.iterdir()} == {"ingest.yaml", "select.yaml", "probe.yaml"}
