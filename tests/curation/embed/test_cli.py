"""`curate embed`, and embedders by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import datalake
from curation.cli.app import app
from curation.embed import embedder as found_by_name
from curation.embed.embedder import load_embedder
from curation.embed.lfcc_stats import LfccStats
from datalake import Lineage, plugins
from datalake.cli import console
from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.schema import media_field
from tests.curation.embed.rows import as_files, clips
from tests.curation.embed.test_hf_audio import write_model

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lake = datalake.open_lake(tmp_path / "lake")
    schema = pa.schema(
        [
            pa.field("utt_id", pa.string()),
            pa.field("duration_s", pa.float64()),
            media_field("audio", "audio"),
        ]
    )
    files = [*as_files(clips(0.3, 0.4, 0.5)), b"broken"]
    rows = pa.table(
        {"utt_id": list("abcd"), "duration_s": [0.3, 0.4, 0.5, 0.1], "audio": files}, schema=schema
    )
    lake.create("t", schema, lineage=Lineage("create")).append(rows)
    return tmp_path


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `curate embed`: exit code, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            console.run(app, "curate", ["embed", *arguments, "--lake", str(folder / "lake")])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return int(left.value.code or 0), out, err

    return run


def test_a_column_is_added_and_replaced(run: Run, folder: Path) -> None:
    code, out, err = run("t", "--with", "logmel_stats", "--json")
    report = json.loads(out)
    assert code == 0, err
    assert (report["num_annotated"], report["num_failed"]) == (3, 1)
    assert report["audio_hours_per_s"] > 0
    table = datalake.open_lake(folder / "lake")["t"]
    assert table.schema.field("logmel_stats").type == pa.list_(pa.float32(), 160)
    code, out, err = run("t", "--with", "logmel_stats", "--quiet")
    assert (code, out) == (2, "")
    assert "has a column logmel_stats already" in err
    code, out, _ = run("t", "--with", "lfcc_stats", "--as", "v", "--where", "duration_s < 0.45")
    assert code == 0
    assert "rows/s" in out
    assert "h of audio/s" in out
    rows = datalake.open_lake(folder / "lake")["t"].scan(["v"]).read_all()["v"]
    assert rows.is_valid().to_pylist() == [True, True, False, False]
    assert run("t", "--with", "lfcc_stats", "--as", "v", "--replace")[0] == 0


def test_a_model_is_named_by_path_and_layer(run: Run, folder: Path) -> None:
    path = str(write_model(folder / "wavlm"))
    code, out, err = run("t", "--with", "hf_audio", "--model", path, "--layer", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["config"]["annotator"]["layer"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["t", "--with", "lfcc"], "lfcc_stats"),
        (["u", "--with", "lfcc_stats"], "u"),
        (["t", "--with", "lfcc_stats", "--model", "x"], "takes no option model"),
        (["t", "--with", "hf_audio"], "Give --model"),
        (["t", "--with", "hf_audio", "--model", "nowhere"], "There is no model here"),
        (["t", "--with", "lfcc_stats", "--column", "sound"], "sound"),
        (["t", "--with", "lfcc_stats", "--device", "abacus"], "abacus"),
        (["t", "--with", "trajectory"], "takes episodes"),
        (["t", "--with", "keyframes"], "no column of images"),
        (["t", "--with", "lfcc_stats", "--where", "x >"], "There is: audio"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_cannot_be_is_said_and_nothing_written(
    run: Run, folder: Path, arguments: list[str], says: str
) -> None:
    before = datalake.open_lake(folder / "lake")["t"].version
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())
    assert datalake.open_lake(folder / "lake")["t"].version == before


def test_all_are_found_by_name() -> None:
    assert set(plugins.names(found_by_name.GROUP)) >= {
        "lfcc_stats", "logmel_stats", "speaker", "hf_audio", "hf_image", "keyframes", "trajectory",
    }  # fmt: skip


def test_a_stranger_is_an_annotator_or_makes_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = datalake.open_lake(folder / "lake")
    registered: dict[str, object] = {"ready": LfccStats(), "number": 7, "maker": lambda: "text"}
    monkeypatch.setattr(plugins, "load", lambda group, name: registered[name])
    assert load_embedder("ready", lake, "t") is registered["ready"]
    with pytest.raises(InputError, match="takes no option layer"):
        load_embedder("ready", lake, "t", layer=1)
    for name in ("number", "maker"):
        with pytest.raises(ConfigError, match="cannot be used"):
            load_embedder(name, lake, "t")


def test_one_that_is_missing_is_named() -> None:
    with pytest.raises(NotFoundError, match="no embedder 'lfcc_stat'"):
        plugins.load(found_by_name.GROUP, "lfcc_stat")


@pytest.mark.parametrize("kept_as", ["lance", "delta"])
def test_only_vectors_of_the_same_making_stay_beside_new_ones(
    run: Run, folder: Path, kept_as: str
) -> None:
    lake = datalake.open_lake(folder / "lake")
    rows = lake["t"].scan().read_all()
    lake.create("u", rows.schema, format=kept_as, lineage=Lineage("create")).append(rows)
    assert run("u", "--with", "logmel_stats", "--as", "v", "--where", "utt_id = 'a'")[0] == 0
    assert lake["u"].schema.field("v").metadata[b"datalake.embedder"] == b"logmel_stats"
    before = lake["u"].scan(["v"], limit=1).read_all()
    assert (
        run("u", "--with", "logmel_stats", "--as", "v", "--where", "v IS NULL", "--replace")[0] == 0
    )
    found = lake["u"].scan(["v"]).read_all()
    assert found["v"].is_valid().to_pylist() == [True, True, True, False]
    assert found.slice(0, 1).to_pydict() == before.to_pydict()
    path = str(write_model(folder / "one"))
    run("u", "--with", "hf_audio", "--model", path, "--as", "w", "--where", "utt_id = 'a'")
    other = ("u", "--with", "hf_audio", "--model", path, "--as", "w", "--layer", "1")
    code, _, err = run(*other, "--where", "w IS NULL", "--replace")
    assert code == 2
    assert "something else made" in err
    assert run(*other, "--replace")[0] == 0
