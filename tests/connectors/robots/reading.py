"""Opens a dataset of files and reads it, for tests of what connectors read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image

from datalake.detection import connector
from datalake.recording import BadEpisode, EpisodeCorpus, EpisodeData
from datalake.testing.connector_suite import lay_down
from datalake.testing.episode_connector_suite import read_all
from datalake.uri import locate


def opened(name: str, path: Path, data: Mapping[str, bytes], /, **options: str) -> EpisodeCorpus:
    """The dataset of these files, laid down at `path` and opened there."""
    lay_down(data, locate(path))
    corpus = connector(name).open(locate(path), options)
    assert isinstance(corpus, EpisodeCorpus)
    return corpus


def good(corpus: EpisodeCorpus) -> list[EpisodeData]:
    """The episodes, all of which can be read."""
    found = read_all(corpus)
    assert [data for data in found if isinstance(data, BadEpisode)] == []
    assert [ref for ref in corpus.episodes() if ref.refusal] == []
    return [data for data in found if isinstance(data, EpisodeData)]


def bad(corpus: EpisodeCorpus) -> dict[str, tuple[str, str]]:
    """Reason and detail of each episode that cannot be used, by the last part of its id."""
    refused = {ref.episode_id: ref.refusal for ref in corpus.episodes() if ref.refusal}
    unread = {
        data.ref.episode_id: (data.reason, data.detail)
        for data in read_all(corpus)
        if isinstance(data, BadEpisode)
    }
    return {
        name.rpartition("/")[2]: (str(reason), detail)
        for name, (reason, detail) in {**refused, **unread}.items()
    }


def numbers(frames: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of numbers, (frames, elements)."""
    column = frames[name].combine_chunks()
    flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    values = flat.to_numpy(zero_copy_only=False)
    return values.reshape(frames.num_rows, -1)


def assert_numbers(frames: pa.Table, name: str, values: npt.NDArray[Any]) -> None:
    """That a column holds these values, bit for bit and in their dtype."""
    found = numbers(frames, name)
    assert found.dtype == values.dtype
    assert found.tobytes() == np.ascontiguousarray(values).tobytes()


def decoded(frames: pa.Table, name: str) -> list[npt.NDArray[Any]]:
    """The pictures of a column as pixels, by Pillow."""
    return [np.asarray(Image.open(io.BytesIO(data))) for data in frames[name].to_pylist()]


def assert_pictures(frames: pa.Table, name: str, pixels: npt.NDArray[Any]) -> None:
    """That a column holds PNG of exactly these pixels."""
    assert all(data.startswith(b"\x89PNG") for data in frames[name].to_pylist())
    for found, wanted in zip(decoded(frames, name), pixels, strict=True):
        np.testing.assert_array_equal(found, wanted.reshape(found.shape))
        assert found.dtype == wanted.dtype
