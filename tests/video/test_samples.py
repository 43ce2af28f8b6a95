"""What an MP4's index says of its packets is what demuxing it finds, or nothing is said."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.video import BadVideo, Converter, DecoderPool, Film, VideoInfo, probe
from datalake.video.samples import read_samples
from tests.video.clips import HEIGHT, WIDTH, clip, decoded, later, remuxed
from tests.video.test_probe import WHOLE

# Other containers, and MP4 whose index does not say all.
UNINDEXED = {
    *("matroska", "webm", "mpegts", "avi", "fragmented"),
    *("hidden_group", "hidden_frames_of_the_only_group"),
}


def coloured() -> bytes:
    """H.264 that says nothing of its colours, in a container that does: BT.709, full range."""
    with (
        tempfile.NamedTemporaryFile() as file,
        av.open(io.BytesIO(clip())) as source,
        av.open(file.name, "w", format="mp4") as output,
    ):
        track: Any = source.streams.video[0]
        stream: Any = output.add_stream_from_template(track, opaque=True)
        stream.time_base = track.time_base
        context = stream.codec_context
        context.color_primaries = context.color_trc = context.colorspace = 1
        context.color_range = 2
        for packet in source.demux(track):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
        output.close()
        return Path(file.name).read_bytes()


FILES = {**WHOLE, "coloured": coloured}


def pictures_of(
    film: Film, pool: DecoderPool, wanted: list[int], ahead: list[int] | None = None
) -> np.ndarray:
    """Frames by number, one group at a time."""
    converter, found = Converter(None), {}
    numbers = np.unique(np.array(wanted, np.int64))
    groups = film.info.group_of(numbers)
    more = None if ahead is None else np.array(ahead, np.int64)
    for group in np.unique(groups).tolist():
        own = None if more is None else more[film.info.group_of(more) == group]
        for number, frame in film.decode(pool, group, numbers[groups == group], own):
            found[number] = np.empty((HEIGHT, WIDTH, 3), np.uint8)
            converter.into(frame, found[number])
    return np.stack([found[number] for number in wanted])


@pytest.mark.parametrize("name", FILES)
def test_samples_are_the_packets(name: str) -> None:
    data = FILES[name]()
    info = probe(data)
    samples = read_samples(memoryview(data), info)
    assert (samples is None) == (name in UNINDEXED)
    if samples is None:
        return
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size]
        extradata = stream.codec_context.extradata
    assert len(packets) == len(samples.sizes) == info.num_frames
    for place, packet in enumerate(packets):
        begin = samples.offsets[place]
        assert data[begin : begin + samples.sizes[place]] == bytes(packet)
        assert info.frame_pts[samples.frames[place]] == packet.pts
        assert samples.places[samples.frames[place]] == place
    assert samples.kind.extradata == (extradata or b"")
    assert samples.num_bytes == 20 * info.num_frames


def test_facts_of_another_file_are_found_out() -> None:
    others = [probe(WHOLE[name]()) for name in ("uneven_times", "one_frame", "hevc", "h264")]
    data = memoryview(clip("h264_one_group"))
    assert all(read_samples(data, info) is None for info in others)


@pytest.mark.parametrize("name", FILES)
def test_frames_of_every_kind_of_file(name: str) -> None:
    data = FILES[name]()
    frames, _ = decoded(data)
    film, pool = Film(memoryview(data), probe(data)), DecoderPool()
    rng = np.random.default_rng(0)
    for number in range(len(frames)):
        assert (pictures_of(film, pool, [number]) == frames[number]).all()
    for _ in range(6):
        wanted = rng.integers(0, len(frames), 4).tolist()
        more = rng.integers(0, len(frames), rng.integers(0, 4)).tolist()
        assert (pictures_of(film, pool, wanted, more) == frames[wanted]).all()
    assert len(pool) == (0 if name in UNINDEXED else 1)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_index_is_no_trouble(data: st.DataObject) -> None:
    """Any byte of the index may be wrong: no samples, or some within the file; no other error."""
    whole = clip()
    begin = whole.index(b"moov") - 4
    spoilt = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(begin, len(whole) - 1))] = data.draw(st.integers(0, 255))
    samples = read_samples(memoryview(spoilt), probe(whole))
    if samples is not None:
        assert (samples.offsets >= 0).all()
        assert (samples.offsets + samples.sizes <= len(spoilt)).all()


def test_damaged_packets_are_reported() -> None:
    """The container's word is the last: what it can decode is decoded."""
    data = bytearray(clip("av1"))
    info = probe(bytes(data))
    samples = read_samples(memoryview(data), info)
    assert samples is not None
    begin = int(samples.offsets[samples.places[10]])
    data[begin : begin + int(samples.sizes[samples.places[10]])] = bytes(
        samples.sizes[samples.places[10]]
    )
    film, pool = Film(memoryview(data), info), DecoderPool()
    with pytest.raises(BadVideo):
        pictures_of(film, pool, [10])
    frames, _ = decoded(clip("av1"))
    assert (pictures_of(film, pool, [3, 21]) == frames[[3, 21]]).all()


def test_going_on_to_the_end_of_a_group() -> None:
    """Of 12 frames in one group: what comes by on the way to some of them."""
    data = clip("h264_one_group", 12, bf="0")
    film, pool = Film(memoryview(data), probe(data)), DecoderPool()

    def passed(wanted: int, ahead: list[int] | None) -> list[int]:
        more = None if ahead is None else np.array(ahead, np.int64)
        return [number for number, _ in film.decode(pool, 0, np.array([wanted]), more)]

    assert passed(2, None) == [0, 1, 2]
    assert passed(2, []) == [0, 1, 2]
    assert passed(2, [4, 1]) == [0, 1, 2, 3, 4]
    assert passed(5, []) == list(range(12))
    assert passed(2, [5]) == list(range(12))


def test_one_decoder_serves_many_files() -> None:
    """Files of one kind take turns with a decoder, and idle decoders are few."""
    pool = DecoderPool(max_idle=2)
    for seed in range(4):
        data = clip("h264", seed=seed)
        frames, _ = decoded(data)
        film = Film(memoryview(data), probe(data))
        assert (pictures_of(film, pool, [29, 8, 9]) == frames[[29, 8, 9]]).all()
    assert len(pool) == 1
    for kind in ("hevc", "av1", "vp9"):
        data = clip(kind)
        pictures_of(Film(memoryview(data), probe(data)), pool, [7])
    assert len(pool) == 2


def test_a_decoder_that_is_left_halfway_starts_anew() -> None:
    data = clip("hevc")
    frames, _ = decoded(data)
    film, pool = Film(memoryview(data), probe(data)), DecoderPool()

    def some() -> Iterator[Any]:
        return film.decode(pool, 0, np.arange(5))

    for _ in range(3):
        with closing(some()) as passing:  # type: ignore[type-var]
            next(passing)
        assert (pictures_of(film, pool, [16, 2]) == frames[[16, 2]]).all()
    assert len(pool) == 1


@pytest.mark.parametrize("name", ["h264", "matroska"])
def test_many_threads_read_one_film(name: str) -> None:
    data = FILES[name]()
    frames, _ = decoded(data)
    film, pool = Film(memoryview(data), probe(data)), DecoderPool()

    def right(seed: int) -> bool:
        wanted = np.random.default_rng(seed).integers(0, len(frames), 6).tolist()
        return bool((pictures_of(film, pool, wanted) == frames[wanted]).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(right, range(24)))


def test_frames_that_overtake_many_others() -> None:
    """B-frames that refer to B-frames, in a stream that does not say how many are held back."""
    options = {"x264-params": "b-pyramid=2:b-adapt=0:bframes=7:keyint=16"}
    data = clip("h264", 40, **options)
    frames, _ = decoded(data)
    info: VideoInfo = probe(data)
    film, pool = Film(memoryview(data), info), DecoderPool()
    assert read_samples(memoryview(data), info) is not None
    for number in range(0, 40, 3):
        assert (pictures_of(film, pool, [number]) == frames[number]).all()


def test_times_that_are_shifted_alone() -> None:
    data = remuxed(clip(), later(8 * 512))
    assert read_samples(memoryview(data), probe(data)) is not None


@pytest.mark.shared
def test_the_real_av1_videos(shared_dir: Path) -> None:
    pool = DecoderPool()
    for path in sorted(shared_dir.glob("data/robot/g1_pick_v21/videos/*/*/*.mp4"))[:2]:
        data = path.read_bytes()
        film = Film(memoryview(data), probe(data))
        frames, _ = decoded(data)
        converter, picture = Converter(None), np.empty((480, 640, 3), np.uint8)
        for number in np.random.default_rng(0).integers(0, len(frames), 8).tolist():
            group = int(film.info.group_of(np.array([number]))[0])
            for passed, frame in film.decode(pool, group, np.array([number])):
                converter.into(frame, picture)
                assert passed != number or (picture == frames[number]).all()
    assert len(pool) == 1
