"""What is read of replay buffers, value by value and pixel by pixel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import zarr

from connectors.umi import connector as umi
from datalake.detection import detect
from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.recording import EpisodeData
from datalake.uri import locate
from tests.connectors.robots import buffers
from tests.connectors.robots.reading import assert_numbers, assert_pictures, bad, good

BOUNDS = list(zip((0, *buffers.ENDS[:-1]), buffers.ENDS, strict=True))


def open_at(path: Path, **options: str) -> umi.UmiCorpus:
    return umi.CONNECTOR.open(locate(path), {"fps": "10", **options})


def check(episodes: list[EpisodeData], arrays: buffers.Values) -> None:
    assert len(episodes) == len(BOUNDS)
    for data, (start, stop) in zip(episodes, BOUNDS, strict=True):
        assert data.ref.length == stop - start
        for key, values in arrays.items():
            if values.ndim == 4:
                pixels = values[start:stop].astype("uint8")
                assert_pictures(data.frames, f"observation.images.{key}", pixels)
            else:
                name = "action" if key == "action" else f"observation.{key}"
                assert_numbers(data.frames, name, values[start:stop])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["pusht_cchi_v7_replay.zarr", "pusht_cchi_v7_replay.zarr.zip"])
def test_every_value_of_pusht(tmp_path: Path, name: str, zarr_format: int) -> None:
    arrays = buffers.pusht()
    buffers.write(tmp_path / "pusht" / name, arrays, zarr_format=zarr_format)
    for path in (tmp_path / "pusht", tmp_path / "pusht" / name):
        assert [evidence.connector for evidence in detect(path)] == ["umi"]
        corpus = open_at(path, task="push the T")
        assert corpus.source == "pusht_cchi_v7_replay"
        assert corpus.embodiment is None
        assert list(corpus.findings()) == []
        check(good(corpus), arrays)
    (picture,) = (feature for feature in corpus.features if feature.dtype == "image")
    assert picture.info == {"stored_as": "float32"}
    assert good(corpus)[0].tasks == {0: "push the T"}


@pytest.mark.parametrize("name", ["dataset.zarr", "dataset.zarr.zip"])
def test_every_value_of_umi(tmp_path: Path, name: str) -> None:
    arrays = buffers.umi()
    buffers.write(tmp_path / "cup" / name, arrays)
    corpus = open_at(tmp_path / "cup" / name, fps="59.94")
    assert corpus.embodiment == "umi"
    assert corpus.source.endswith("_cup_dataset")
    check(good(corpus), arrays)


def test_jpeg_xl_is_decoded_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "cup.zarr"
    buffers.write(path, buffers.umi(), lossless=False)
    pixels = np.asarray(zarr.open_group(path, mode="r")["data/camera0_rgb"])
    name = "observation.images.camera0_rgb"
    for data, (start, stop) in zip(good(open_at(path)), BOUNDS, strict=True):
        assert_pictures(data.frames, name, pixels[start:stop])
    for data, (start, stop) in zip(good(open_at(path, pictures="keep")), BOUNDS, strict=True):
        found = data.frames[name].to_pylist()
        files = [path / f"data/camera0_rgb/{row}.0.0.0" for row in range(start, stop)]
        assert found == [file.read_bytes() for file in files]
        decoded = [imagecodecs.jpegxl_decode(picture) for picture in found]
        np.testing.assert_array_equal(decoded, pixels[start:stop])


def test_floats_that_are_no_bytes_stay_numbers(tmp_path: Path) -> None:
    arrays = buffers.pusht()
    arrays["img"] = arrays["img"] / 255
    buffers.write(tmp_path / "a.zarr", arrays)
    (first, *_) = good(open_at(tmp_path / "a.zarr"))
    assert_numbers(first.frames, "observation.img", arrays["img"][:4])
    arrays = buffers.pusht()
    arrays["img"][4:] /= 2
    buffers.write(tmp_path / "b.zarr", arrays)
    found = bad(open_at(tmp_path / "b.zarr"))
    assert {name: reason for name, (reason, _) in found.items()} == {
        "000001": "out_of_range",
        "000002": "out_of_range",
    }


def test_a_chunk_that_is_gone_is_not_made_up(tmp_path: Path) -> None:
    path = tmp_path / "cup.zarr"
    buffers.write(path, buffers.umi())
    (path / "data/camera0_rgb/4.0.0.0").unlink()
    (path / "data/robot0_eef_pos/3.0").unlink()
    found = bad(open_at(path))
    assert {name: reason for name, (reason, _) in found.items()} == {
        "000001": "not_found",
        "000002": "not_found",
    }
    assert "data/camera0_rgb/4.0.0.0" in found["000001"][1]
    filled = good(open_at(path, absent="fill"))
    assert not np.asarray(filled[2].frames["observation.robot0_eef_pos"].to_pylist())[-2:].any()
    assert set(bad(open_at(path, pictures="keep"))) == {"000001", "000002"}


def test_chunks_that_hold_nothing_need_not_be_in_a_zip_file(tmp_path: Path) -> None:
    """Zarr 3 leaves them out by default; a zip file that is cut cannot be opened."""
    arrays = {**buffers.pusht(), "n_contacts": np.zeros((buffers.ENDS[-1], 1), "float32")}
    buffers.write(tmp_path / "a.zarr.zip", arrays, empty_chunks=False)
    check(good(open_at(tmp_path / "a.zarr.zip")), arrays)
    assert len(bad(open_at(tmp_path / "a.zarr.zip", absent="refuse"))) == len(BOUNDS)


def test_damage_at_the_beginning_costs_the_first_episode_alone(tmp_path: Path) -> None:
    path = tmp_path / "pusht.zarr"
    buffers.write(path, buffers.pusht())
    file = path / "data/img/0.0.0.0"
    file.write_bytes(file.read_bytes()[:100])
    assert {name: reason for name, (reason, _) in bad(open_at(path)).items()} == {
        "000000": "truncated"
    }


def test_a_chunk_that_is_cut_is_not_made_up(tmp_path: Path) -> None:
    path = tmp_path / "pusht.zarr"
    buffers.write(path, buffers.pusht())
    file = path / "data/action/0.0"
    for size in range(len(file.read_bytes())):
        copy = tmp_path / f"cut{size}.zarr"
        if size % 9 == 0:
            shutil.copytree(path, copy)
            (copy / "data/action/0.0").write_bytes(file.read_bytes()[:size])
            assert bad(open_at(copy))["000000"][0] in {"truncated", "corrupt"}
            assert "000002" not in bad(open_at(copy))


@pytest.mark.parametrize(
    ("ends", "refused"),
    [
        ((4, 4, 11), {"000001": "empty"}),
        ((4, 2, 11), {"000001": "metadata_mismatch"}),
        ((4, 11, 12), {"000002": "length_mismatch"}),
        ((4, 11, 2**60), {"000002": "length_mismatch"}),
    ],
)
def test_ends_that_do_not_fit(tmp_path: Path, ends: Any, refused: dict[str, str]) -> None:
    buffers.write(tmp_path / "a.zarr", buffers.pusht(), ends)
    found = bad(open_at(tmp_path / "a.zarr"))
    assert {name: reason for name, (reason, _) in found.items()} == refused


def test_what_is_left_over_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    buffers.write(path, buffers.pusht(), (4, 5))
    group = zarr.open_group(path, mode="a")
    group["data"].create_group("below")
    group["data"].create_array("waves", shape=(11, 2), dtype="complex64")
    (path / "data/lost").mkdir()
    (path / "data/lost/0").write_bytes(b"x")
    details = " ".join(finding.detail for finding in open_at(path).findings())
    assert "data/below is left out" in details
    assert "data/lost is left out" in details
    assert "data/waves is left out: its dtype complex64" in details
    assert "6 frames after the last episode" in details


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    buffers.write(path, buffers.pusht())
    with pytest.raises(ConfigError, match="fps=10"):
        umi.CONNECTOR.open(locate(path), {})
    with pytest.raises(InputError):
        open_at(tmp_path / "nothing")
    buffers.write(tmp_path / "b.zarr", buffers.pusht())
    with pytest.raises(InputError, match=r"a\.zarr, b\.zarr"):
        open_at(tmp_path)
    for ends in (np.zeros((2, 2), "i8"), np.array([1.5, 3.0]), np.array([], "i8")):
        buffers.write(tmp_path / "c.zarr", buffers.pusht(), ends)
        with pytest.raises((InputError, NotFoundError), match="episode_ends"):
            open_at(tmp_path / "c.zarr")
        shutil.rmtree(tmp_path / "c.zarr")
