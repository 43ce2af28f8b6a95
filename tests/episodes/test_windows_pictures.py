"""Pictures are what `decode_picture` gives, bit by bit, whatever decodes them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.episodes.windows import pictures as module
from datalake.episodes.windows.pictures import decode_into, shape_of
from datalake.errors import InputError
from datalake.video import BadVideo
from datalake.video.pictures import decode_picture

Image = pytest.importorskip("PIL.Image")


def encoded(pixels: np.ndarray, kind: str, mode: str | None = None, **options: Any) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture if mode is None else picture.convert(mode)).save(file, kind, **options)
    return file.getvalue()


def view(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def decoded(data: bytes, size: tuple[int, int] | None = None) -> np.ndarray:
    shape, dtype = shape_of(view(data), size)
    out = np.zeros(shape, dtype)
    decode_into(view(data), out, size)
    return out


def pixels(seed: int, height: int, width: int, *, grey: bool = False) -> np.ndarray:
    """Noise over a slope: edges and flats."""
    rng = np.random.default_rng(seed)
    slope = np.linspace(0, 200, width) + np.linspace(0, 40, height)[:, None]
    noise = rng.integers(0, 2 + 50 * (seed % 2), (height, width, 3))
    colours = (slope[:, :, None] * [1, 0.5, 0.2] + noise).clip(0, 255).astype(np.uint8)
    return colours[:, :, 0] if grey else colours


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 9),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.fixed_dictionaries(
        {
            "quality": st.sampled_from([5, 40, 75, 95, 100]),
            "subsampling": st.integers(0, 2),
            "progressive": st.booleans(),
            "optimize": st.booleans(),
            "restart_marker_blocks": st.sampled_from([0, 2]),
        }
    ),
    st.sampled_from([None, "L", "CMYK"]),
    st.sampled_from([None, (16, 9), (90, 80), (1, 1)]),
)
def test_jpeg_is_that_of_pillow(
    seed: int,
    shape: tuple[int, int],
    options: dict[str, Any],
    mode: str | None,
    size: tuple[int, int] | None,
) -> None:
    data = encoded(pixels(seed, *shape), "jpeg", mode, **options)
    expected = decode_picture(data, size)
    found = decoded(data, size)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", [None, (5, 4)])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *(("png", mode) for mode in ("RGB", "L", "RGBA", "I;16", "P", "1")),
        *((kind, "RGB") for kind in ("bmp", "webp", "tiff")),
    ],
)
def test_other_pictures_are_those_of_pillow(
    kind: str, mode: str, size: tuple[int, int] | None
) -> None:
    picture = pixels(3, 6, 7, grey=mode == "I;16")
    if mode == "I;16":
        data = encoded(picture.astype(np.uint16) * 257, kind)
    else:
        data = encoded(picture, kind, mode)
    expected = decode_picture(data, size)
    found = decoded(data, size)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_a_jpeg_in_rgb_and_one_with_a_preview() -> None:
    for data in (
        encoded(pixels(1, 20, 30), "jpeg", keep_rgb=True),
        encoded(
            pixels(1, 20, 30),
            "mpo",
            save_all=True,
            append_images=[Image.fromarray(pixels(2, 9, 9))],
        ),
    ):
        assert np.array_equal(decoded(data), decode_picture(data))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 600), st.integers(0, 255), st.integers(0, 600))
def test_damage_is_judged_as_pillow_judges_it(at: int, value: int, cut: int) -> None:
    data = bytearray(encoded(pixels(1, 30, 40), "jpeg"))
    data[at % len(data)] = value
    bad = bytes(data[: max(len(data) - cut % 40, 4)] if cut % 3 else data)
    try:
        expected = decode_picture(bad)
    except BadVideo:
        with pytest.raises(BadVideo):
            decoded(bad)
    else:
        assert np.array_equal(decoded(bad), expected)


def test_without_simplejpeg_pillow_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(pixels(1, 20, 30), "jpeg")
    expected = decoded(data)
    monkeypatch.setattr(module, "simplejpeg", None)
    assert np.array_equal(decoded(data), expected)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
@pytest.mark.parametrize("shape", [(20, 31, 3), (20, 29, 3), (20, 30, 1), (30, 20, 3)])
def test_a_picture_of_another_shape_is_refused(kind: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"differ in size.*20, 30, 3"):
        decode_into(view(encoded(pixels(1, 20, 30), kind)), np.zeros(shape, np.uint8), None)


def test_into_memory_that_does_not_lie_together() -> None:
    data = encoded(pixels(1, 20, 30), "jpeg")
    out = np.zeros((20, 60, 3), np.uint8)[:, ::2]
    decode_into(view(data), out, None)
    assert np.array_equal(out, decode_picture(data))
