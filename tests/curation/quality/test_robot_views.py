"""What a camera shows: frozen, blurred and badly exposed keyframes, and a video's length."""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from curation.quality.robot_views import VIEWS, RobotViews, exposure, fingerprint, sharpness
from datalake.errors import InputError
from datalake.lake import Lake, Lineage, open_lake
from datalake.video import VideoInfo, VideoReader
from tests.patience import PATIENCE_S
from tests.robots import CAMERA, clip_frames, write_robots

_numbers = itertools.count()


@pytest.fixture
def lake() -> Lake:
    return open_lake(f"memory://views{next(_numbers)}")


def scene(seed: int, height: int = 48, width: int = 64) -> np.ndarray:
    """A picture of edges, with the noise of a camera."""
    rng = np.random.default_rng(seed)
    blocks = rng.random((6, 8))
    grey = np.kron(blocks, np.ones((height // 6, width // 8)))
    return np.clip(grey + rng.normal(0, 0.01, grey.shape), 0, 1)


def blurred(grey: np.ndarray) -> np.ndarray:
    for axis in (0, 1):
        grey = (np.roll(grey, 1, axis) + grey + np.roll(grey, -1, axis)) / 3
    return grey


def test_a_fingerprint_is_that_of_areas() -> None:
    grey = scene(0, 96, 136)
    bits = []
    for row in range(16):
        means = [grey[6 * row : 6 * row + 6, 8 * n : 8 * n + 8].mean() for n in range(17)]
        bits += [one > two for one, two in itertools.pairwise(means)]
    assert fingerprint(grey) == np.packbits(bits).tobytes()
    assert fingerprint(grey.copy()) == fingerprint(grey)
    noise = np.random.default_rng(1).normal(0, 0.01, grey.shape)
    assert fingerprint(grey + noise) != fingerprint(grey)
    # Pictures smaller than the areas have one too.
    assert fingerprint(scene(0, 6, 8)) == fingerprint(scene(0, 6, 8))


def test_sharpness_falls_with_blur_and_not_with_light() -> None:
    grey = scene(0)
    sharp = sharpness(grey)
    assert sharp is not None
    by_hand = []
    for y in range(1, 47):
        for x in range(1, 63):
            beside = grey[y - 1, x] + grey[y + 1, x] + grey[y, x - 1] + grey[y, x + 1]
            by_hand.append(beside - 4 * grey[y, x])
    assert sharp == pytest.approx(np.var(by_hand) / np.var(grey))
    assert sharpness(grey / 2 + 0.1) == pytest.approx(sharp)
    assert (sharpness(blurred(grey)) or 0) < sharp / 4
    assert sharpness(np.full((9, 9), 0.5)) is None
    assert sharpness(np.zeros((2, 9))) is None


def test_exposure_is_counted() -> None:
    grey = np.full((4, 5), 0.5)
    grey[0] = 0.01
    grey[1, :2] = 1.0
    assert exposure(grey) == pytest.approx((grey.mean(), 0.25, 0.1))


def test_an_episode_is_measured_on_its_keyframes(lake: Lake) -> None:
    g1 = write_robots(lake, image=False)
    measures = RobotViews(lake, "g1.episodes")
    rows = g1.episodes.scan(list(measures.reads)).read_all()
    made = pickle.loads(pickle.dumps(measures)).open()(rows)
    assert made.drop_columns(["error"]).schema == VIEWS
    assert made["error"].null_count == 5
    assert made["num_video_frames_over"].to_pylist() == [0] * 5
    videos = {row["video_id"]: row for row in g1.videos.scan().read_all().to_pylist()}
    for episode, found in zip(rows.to_pylist(), made.to_pylist(), strict=True):
        [span] = episode["videos"]
        row = videos[span["video_id"]]
        info = VideoInfo.from_row(row)
        first, last = round(span["from_s"] * info.fps), round(span["to_s"] * info.fps)
        keys = [key for key in info.keyframes.tolist() if first <= key < last] or [first]
        with VideoReader(row["video"], info) as reader:
            pictures = list(reader.frames(keys))
        greys = [picture @ np.array([0.299, 0.587, 0.114]) / 255 for picture in pictures]
        prints = [hashlib.md5(fingerprint(grey)).digest() for grey in greys]
        same = [one == two for one, two in itertools.pairwise(prints)]
        assert found["frozen_view_share"] == (np.mean(same) if same else None)
        assert found["brightness"] == pytest.approx(np.median([grey.mean() for grey in greys]))
        sharp = [sharpness(grey) for grey in greys]
        assert found["sharpness_min"] == pytest.approx(min(sharp))
    # As much beside others as alone, and as many frames too many as the data has too few.
    work = measures.open()
    alone = pa.concat_tables([work(rows.slice(row, 1)) for row in range(5)])
    assert alone.equals(made)
    short = rows.set_column(
        rows.column_names.index("length"), "length", pa.array([n - 2 for n in (12, 7, 20, 9, 15)])
    )
    assert work(short)["num_video_frames_over"].to_pylist() == [2] * 5


def test_a_camera_that_hangs_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    still = clip_frames(1)
    monkeypatch.setattr(
        "tests.robots.clip_frames", lambda number, **_: np.repeat(still, number, axis=0)
    )
    g1 = write_robots(lake, image=False, lengths=(30, 10))
    work = RobotViews(lake, "g1.episodes").open()
    found = work(g1.episodes.scan(list(RobotViews(lake, "g1.episodes").reads)).read_all())
    assert found["frozen_view_share"].to_pylist() == [1.0, 1.0]


def test_frames_of_an_image_feature_have_no_video(lake: Lake) -> None:
    g1 = write_robots(lake, video=False)
    made = RobotViews(lake, "g1.episodes").open()(g1.episodes.scan().read_all())
    assert made["num_video_frames_over"].null_count == 5
    assert made["brightness"].null_count == 0


def test_what_has_no_camera_is_refused(lake: Lake) -> None:
    write_robots(lake)
    with pytest.raises(InputError, match="Which camera is meant"):
        RobotViews(lake, "g1.episodes")
    assert RobotViews(lake, "g1.episodes", CAMERA).pictures.chosen == CAMERA
    field = pa.field("image", pa.large_binary(), metadata={"datalake.media": "image"})
    lake.create("t", pa.schema([field]), lineage=Lineage("create"))
    with pytest.raises(InputError, match="Views are of episodes"):
        RobotViews(lake, "t", "image")


def test_sets_are_measured_and_judged_on_the_command_line(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    write_robots(lake, image=False)
    script = (
        "from curation.cli import main; import sys\n"
        "for line in sys.argv[2:]:\n"
        "    sys.argv = ['curate', *line.split('|'), '--lake', sys.argv[1], '--json']\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, line\n"
    )
    done = subprocess.run(
        [
            sys.executable, "-c", script.replace("sys.argv[1]", repr(str(tmp_path / "lake"))), "",
            "measure|g1|--with|robot|--quiet", "measure|g1|--with|robot_views|--quiet",
            "drop|g1|--rule|num_trailing_idle > 0|--rule|num_video_frames_over > 0|--as|good",
        ],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = json.loads("{" + done.stdout.rpartition("\n{")[2])
    assert last["num_judged"] == 5
    assert len(lake.selection("good")) + last["num_dropped"] == 5
