"""Configuration files: keys are option names."""

from __future__ import annotations

from pathlib import Path

import pytest

from datalake.config import read_config
from datalake.errors import ConfigError, NotFoundError

KNOWN = ["table", "max-bad-fraction", "option"]


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_values_keep_their_types(written) -> None:
    path = written("table: corpus\nmax_bad_fraction: 0.5\noption: [a=1, b=2]\n")
    assert read_config(path, KNOWN) == {
        "table": "corpus",
        "max-bad-fraction": 0.5,
        "option": ["a=1", "b=2"],
    }


def test_a_mapping_is_a_list_of_pairs(written) -> None:
    assert read_config(written("option: {path: file, label: 3}"), KNOWN) == {
        "option": ["path=file", "label=3"]
    }


def test_known_names_may_be_spelled_either_way(written) -> None:
    assert read_config(written("max-bad-fraction: 1"), ["max_bad_fraction"]) == {
        "max_bad_fraction": 1
    }


@pytest.mark.parametrize("text", ["", "# nothing\n", "table:\n"])
def test_nothing_set(written, text: str) -> None:
    assert read_config(written(text), KNOWN) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tabel: x", "Did you mean table?"),
        ("7: x", "unknown key '7'"),
        ("- table", "no mapping"),
        ("table: {a: {b: c}}", "cannot be used"),
        ("table: [[1]]", "cannot be used"),
        ("table: 2020-01-01", "cannot be used"),
        ("table: [", "cannot be read"),
        (b"\xff\xfe\xff", "cannot be read"),
    ],
)
def test_bad_files(written, text: str | bytes, says: str) -> None:
    path = written(text)
    with pytest.raises(ConfigError) as caught:
        read_config(path, KNOWN)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no\.yaml"):
        read_config(tmp_path / "no.yaml", KNOWN)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path, KNOWN)
