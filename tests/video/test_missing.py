"""Without the extra `robot`: the package loads, and what needs a decoder says what to install."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest

from datalake.errors import MissingPackageError
from datalake.video import VideoReader, concat, cut, encode, parameters, probe, transcode
from datalake.video.pictures import decode_picture
from tests.video.clips import clip, pictures


def test_everything_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    data = clip()
    for package in ("av", "PIL"):
        monkeypatch.setitem(sys.modules, package, None)
    for use in (
        lambda: probe(data),
        lambda: parameters(data),
        lambda: VideoReader(data),
        lambda: cut(data, 0, 1),
        lambda: concat([data], io.BytesIO()),
        lambda: transcode(data),
        lambda: encode(pictures(1), 30),
        lambda: decode_picture(b"picture"),
    ):
        with pytest.raises(MissingPackageError, match=r"datalake\[robot\]"):
            use()


def test_importing_it_loads_no_decoder() -> None:
    heavy = "{'av', 'PIL', 'torch'} & {*sys.modules}"
    code = f"import sys, datalake.video, datalake.episodes.windows; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pictures_of_every_mode_have_three_axes() -> None:
    from PIL import Image

    for mode, channels in [("L", 1), ("RGB", 3), ("RGBA", 4), ("P", 3), ("I;16", 1)]:
        file = io.BytesIO()
        Image.new(mode, (6, 4)).save(file, "png")
        assert decode_picture(file.getvalue()).shape == (4, 6, channels)
    assert decode_picture(file.getvalue()).dtype == np.uint16
