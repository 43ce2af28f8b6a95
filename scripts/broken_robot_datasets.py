"""Make robot datasets, each broken in one way that people meet, and see what is said of them.

    python scripts/broken_robot_datasets.py DIR

Writes DIR/<version>-<kind> for every kind of damage, small LeRobot datasets of versions 2.1 and 3.0
beside two good ones, checks each and ingests it into DIR/lake. Prints which reason was given, and
exits 1 if it is not the one that is due, or if a good dataset is found fault with.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datalake.cli import console
from datalake.detection import connector
from datalake.episodes.check import check_corpus
from datalake.errors import InputError
from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest
from datalake.quarantine import Reason
from datalake.recording import EpisodeCorpus, Finding, Severity
from datalake.uri import locate

V21: Final = "v2.1"
V30: Final = "v3.0"
WARNING: Final = Severity.WARNING

FPS: Final = 10
LENGTHS: Final = (20, 16, 24)
CAMERA: Final = "observation.images.front"
SIZE: Final = (64, 48)  # width, height
TASK: Final = "pick the cube"

Break: TypeAlias = Callable[[Path], object]
Row: TypeAlias = dict[str, Any]

_BOOKKEEPING: Final = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Kind:
    """One way of being broken."""

    name: str
    version: str
    break_: Break
    """Does it to the dataset in a folder."""
    due: Reason
    severity: Severity = Severity.ERROR
    deep: bool = False
    """Whether it shows only where videos are decoded."""

    @property
    def folder(self) -> str:
        """The dataset's folder."""
        return f"{self.version}-{self.name}"


# Good datasets ------------------------------------------------------------------------------------


def write_good(folder: Path, version: str) -> None:
    """Write a dataset of version `v2.1` or `v3.0` that has no fault."""
    episodes = [frames_of(number) for number in range(len(LENGTHS))]
    (folder / "meta").mkdir(parents=True)
    write_json(folder / "meta/info.json", _info(version))
    (_write_v21 if version == "v2.1" else _write_v30)(folder, episodes)


def frames_of(number: int) -> pa.Table:
    """The rows of an episode."""
    length, first = LENGTHS[number], sum(LENGTHS[:number])
    phase = np.random.default_rng(number).uniform(0, 6, 2)
    state = np.sin(np.arange(length)[:, None] / 5 + phase).astype("float32")
    action = np.vstack([state[1:], state[-1:]])
    return pa.table(
        {
            "observation.state": _vectors(state),
            "action": _vectors(action),
            "timestamp": (np.arange(length) / FPS).astype("float32"),
            "frame_index": np.arange(length),
            "episode_index": np.full(length, number),
            "index": np.arange(first, first + length),
            "task_index": np.zeros(length, dtype="int64"),
        }
    )


def _vectors(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _info(version: str) -> Row:
    width, height = SIZE
    joints: Row = {"dtype": "float32", "shape": [2], "names": ["shoulder", "elbow"]}
    kept = {name: {"dtype": "int64", "shape": [1], "names": None} for name in _BOOKKEEPING}
    kept["timestamp"]["dtype"] = "float32"
    place = {
        "v2.1": ("chunk-{episode_chunk:03d}", "episode_{episode_index:06d}"),
        "v3.0": ("chunk-{chunk_index:03d}", "file-{file_index:03d}"),
    }[version]
    video = (place[0], "{video_key}") if version == "v2.1" else ("{video_key}", place[0])
    return {
        "codebase_version": version,
        "robot_type": "toy_arm",
        "total_episodes": len(LENGTHS),
        "total_frames": sum(LENGTHS),
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(LENGTHS)}"},
        "data_path": f"data/{place[0]}/{place[1]}.parquet",
        "video_path": f"videos/{'/'.join(video)}/{place[1]}.mp4",
        "features": {
            "observation.state": joints,
            "action": joints,
            CAMERA: {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
            },
            **kept,
        },
    }


def _stats(frames: pa.Table) -> dict[str, Row]:
    stats: dict[str, Row] = {}
    for name in ("observation.state", "action"):
        values = np.array(frames[name].to_pylist())
        figures = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0)}
        stats[name] = {key: figure.tolist() for key, figure in figures.items()}
        stats[name] |= {"std": values.std(0).tolist(), "count": [len(values)]}
    return stats


def _write_v21(folder: Path, episodes: Sequence[pa.Table]) -> None:
    write_lines(folder / "meta/tasks.jsonl", [{"task_index": 0, "task": TASK}])
    listed, stats = [], []
    for number, frames in enumerate(episodes):
        listed.append({"episode_index": number, "tasks": [TASK], "length": frames.num_rows})
        stats.append({"episode_index": number, "stats": _stats(frames)})
        write_parquet(folder / data_v21(number), frames)
        write_video(folder / video_v21(number), frames.num_rows, seed=number)
    write_lines(folder / "meta/episodes.jsonl", listed)
    write_lines(folder / "meta/episodes_stats.jsonl", stats)


def _write_v30(folder: Path, episodes: Sequence[pa.Table]) -> None:
    tasks = pa.table({"task_index": [0], "__index_level_0__": [TASK]})
    write_parquet(folder / TASKS_V30, tasks)
    rows = []
    for number, frames in enumerate(episodes):
        first, end = sum(LENGTHS[:number]), sum(LENGTHS[: number + 1])
        row: Row = {
            "episode_index": number,
            "tasks": [TASK],
            "length": frames.num_rows,
            "data/chunk_index": 0,
            "data/file_index": 0,
            "dataset_from_index": first,
            "dataset_to_index": end,
            f"videos/{CAMERA}/chunk_index": 0,
            f"videos/{CAMERA}/file_index": 0,
            f"videos/{CAMERA}/from_timestamp": first / FPS,
            f"videos/{CAMERA}/to_timestamp": end / FPS,
        }
        for feature, figures in _stats(frames).items():
            row |= {f"stats/{feature}/{name}": figure for name, figure in figures.items()}
        rows.append(row)
    write_parquet(folder / EPISODES_V30, pa.Table.from_pylist(rows))
    write_parquet(folder / DATA_V30, pa.concat_tables(episodes), row_group_size=LENGTHS)
    write_video(folder / VIDEO_V30, sum(LENGTHS), seed=0)


# Files --------------------------------------------------------------------------------------------

DATA_V30: Final = "data/chunk-000/file-000.parquet"
VIDEO_V30: Final = f"videos/{CAMERA}/chunk-000/file-000.mp4"
TASKS_V30: Final = "meta/tasks.parquet"
EPISODES_V30: Final = "meta/episodes/chunk-000/file-000.parquet"


def data_v21(number: int) -> str:
    """Where the rows of an episode are in version 2.1."""
    return f"data/chunk-000/episode_{number:06d}.parquet"


def video_v21(number: int) -> str:
    """Where the video of an episode is in version 2.1."""
    return f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4"


def write_json(path: Path, value: object) -> None:
    """Write one JSON value."""
    path.write_text(json.dumps(value, indent=4), "utf-8")


def write_lines(path: Path, rows: Iterable[object]) -> None:
    """Write a JSON value a line."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def write_parquet(path: Path, table: pa.Table, row_group_size: Sequence[int] = ()) -> None:
    """Write rows, in row groups of these sizes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, table.schema) as writer:
        start = 0
        for size in row_group_size or (max(table.num_rows, 1),):
            writer.write_table(table.slice(start, size))
            start += size


def write_video(
    path: Path, num_frames: int, *, seed: int, fps: int = FPS, size: tuple[int, int] = SIZE
) -> None:
    """Write a video of moving stripes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=fps)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = 2
        for number in range(num_frames):
            picture = np.roll(noise, number, axis=1)
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode())


# Damage -------------------------------------------------------------------------------------------


def _bytes(path: str, data: bytes, folder: Path) -> None:
    (folder / path).write_bytes(data)


def _removed(path: str, folder: Path) -> None:
    target = folder / path
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def _cut(path: str, part: float, folder: Path) -> None:
    data = (folder / path).read_bytes()
    (folder / path).write_bytes(data[: int(len(data) * part)])


def _pointer(path: str, folder: Path) -> None:
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 32044\n" % (b"0" * 64)
    (folder / path).write_bytes(text)


def _info_with(change: Callable[[Row], object], folder: Path) -> None:
    path = folder / "meta/info.json"
    info = json.loads(path.read_text("utf-8"))
    change(info)
    write_json(path, info)


def _lines_with(path: str, change: Callable[[list[Row]], object], folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / path).read_text("utf-8").splitlines()]
    change(rows)
    write_lines(folder / path, rows)


def _table_with(path: str, change: Callable[[pa.Table], pa.Table], folder: Path) -> None:
    write_parquet(folder / path, change(pq.read_table(folder / path)))


def _rows_with(path: str, change: Callable[[list[Row]], object], folder: Path) -> None:
    """Change rows as dictionaries; their types stay."""
    table = pq.read_table(folder / path)
    rows = table.to_pylist()
    change(rows)
    write_parquet(folder / path, pa.Table.from_pylist(rows, schema=table.schema))


def _column(name: str, change: Callable[[np.ndarray], object], path: str, folder: Path) -> None:
    """Change the numbers of a column in place, shape (rows,) or (rows, elements)."""
    table = pq.read_table(folder / path)
    place, kept_as = table.column_names.index(name), table.schema.field(name).type
    item = kept_as.value_type if pa.types.is_fixed_size_list(kept_as) else kept_as
    values = np.array(table[name].to_pylist(), dtype=item.to_pandas_dtype())
    change(values)
    column = _vectors(values) if values.ndim == 2 else pa.array(values)
    write_parquet(folder / path, table.set_column(place, name, column))


def _set(key: Any, value: object, rows: Any) -> None:
    rows[key] = value


def _without(row: int, table: pa.Table) -> pa.Table:
    return table.take([*range(row), *range(row + 1, table.num_rows)])


def _repeated(row: int, table: pa.Table) -> pa.Table:
    return table.take([*range(row + 1), *range(row, table.num_rows)])


def _add(key: Any, value: object, values: Any) -> None:
    values[key] += value


def _row_dropped(folder: Path) -> None:
    """A frame's row is gone, and the length is put right."""
    _table_with(data_v21(1), partial(_without, 7), folder)
    _lines_with("meta/episodes.jsonl", lambda rows: rows[1].update(length=LENGTHS[1] - 1), folder)


def _rows_of_another(folder: Path) -> None:
    rows = pq.read_table(folder / data_v21(2)).slice(0, LENGTHS[1])
    write_parquet(folder / data_v21(1), rows)


def _video_of_another(folder: Path) -> None:
    shutil.copy(folder / video_v21(2), folder / video_v21(1))


def _video(folder: Path, num_frames: int = LENGTHS[1], **how: Any) -> None:
    write_video(folder / video_v21(1), num_frames, seed=1, **how)


def _wider_state(folder: Path) -> None:
    table = pq.read_table(folder / data_v21(1))
    values = np.array(table["observation.state"].to_pylist(), "float32")
    wide = _vectors(np.hstack([values, values[:, :1]]))
    write_parquet(folder / data_v21(1), table.set_column(0, "observation.state", wide))


def _doubled(table: pa.Table) -> pa.Table:
    double = table["observation.state"].cast(pa.list_(pa.float64(), 2))
    return table.set_column(0, "observation.state", double)


def _drifting(values: np.ndarray) -> None:
    """What a clock says that runs at 10.1 frames a second."""
    values[:] = np.arange(len(values)) / 10.1


def _bytes_flipped(folder: Path) -> None:
    """Pictures are damaged, and the container is whole."""
    path = folder / video_v21(1)
    data = bytearray(path.read_bytes())
    middle = data.index(b"mdat") + len(data) // 3
    data[middle : middle + 3000] = bytes(byte ^ 0xFF for byte in data[middle : middle + 3000])
    path.write_bytes(data)


def _moved(number: int, from_s: float, to_s: float, rows: list[Row]) -> None:
    """The span of an episode in its video, moved."""
    rows[number][f"videos/{CAMERA}/from_timestamp"] += from_s
    rows[number][f"videos/{CAMERA}/to_timestamp"] += to_s


def _lost_episode(folder: Path) -> None:
    """The metadata end before the data do, as a crash leaves them."""
    _rows_with(EPISODES_V30, lambda rows: rows.pop(), folder)
    total = sum(LENGTHS[:-1])
    _info_with(lambda info: info.update(total_episodes=2, total_frames=total), folder)


def kinds() -> list[Kind]:
    """All of them: metadata, rows, numbers, pictures."""
    return [*_of_metadata(), *_of_rows(), *_of_numbers(), *_of_pictures()]


def _of_metadata() -> Iterator[Kind]:
    info, tasks, episodes = "meta/info.json", "meta/tasks.jsonl", "meta/episodes.jsonl"
    lost = Reason.EMPTY_METADATA
    yield Kind("info_empty", V21, partial(_bytes, info, b""), lost)
    yield Kind("info_cut", V30, partial(_cut, info, 0.5), lost)
    yield Kind(
        "info_without_features", V21, partial(_info_with, lambda info: info.pop("features")), lost
    )
    yield Kind("info_without_fps", V30, partial(_info_with, lambda info: info.pop("fps")), lost)
    yield Kind(
        "info_of_the_future",
        V30,
        partial(_info_with, lambda info: info.update(codebase_version="v4.0")),
        Reason.UNSUPPORTED,
    )
    yield Kind(
        "info_wrong_totals",
        V30,
        partial(_info_with, lambda info: info.update(total_frames=999)),
        Reason.METADATA_MISMATCH,
        WARNING,
    )
    yield Kind("info_pointer", V21, partial(_pointer, info), Reason.LFS_POINTER)
    yield Kind("episodes_absent", V30, partial(_removed, "meta/episodes"), lost)
    yield Kind("episodes_without_footer", V30, partial(_cut, EPISODES_V30, 0.9), lost)
    yield Kind("episodes_empty", V21, partial(_bytes, episodes, b""), lost)
    yield Kind("episodes_pointer", V30, partial(_pointer, EPISODES_V30), Reason.LFS_POINTER)
    yield Kind(
        "episode_twice",
        V30,
        partial(_rows_with, EPISODES_V30, lambda rows: rows.insert(1, rows[0])),
        Reason.METADATA_MISMATCH,
    )
    yield Kind(
        "episode_gap",
        V30,
        partial(_rows_with, EPISODES_V30, lambda rows: rows.pop(1)),
        Reason.INDEX_GAP,
        WARNING,
    )
    yield Kind("tasks_absent", V21, partial(_removed, tasks), lost, WARNING)
    yield Kind("tasks_cut", V30, partial(_cut, TASKS_V30, 0.9), lost, WARNING)
    yield Kind(
        "task_without_text",
        V21,
        partial(_lines_with, tasks, lambda rows: rows[0].update(task=" ")),
        Reason.NO_TASK,
        WARNING,
    )
    yield Kind(
        "task_not_listed",
        V30,
        partial(_column, "task_index", partial(_set, slice(20, None), 7), DATA_V30),
        Reason.NO_TASK,
        WARNING,
    )


def _of_rows() -> Iterator[Kind]:
    data = data_v21(1)
    yield Kind("data_absent", V21, partial(_removed, data), Reason.NOT_FOUND)
    yield Kind("data_empty", V21, partial(_bytes, data, b""), Reason.EMPTY)
    yield Kind("data_cut", V30, partial(_cut, DATA_V30, 0.9), Reason.TRUNCATED)
    yield Kind("data_pointer", V21, partial(_pointer, data), Reason.LFS_POINTER)
    yield Kind("data_is_text", V30, partial(_bytes, DATA_V30, b"<html>"), Reason.CORRUPT)
    yield Kind(
        "no_rows", V21, partial(_table_with, data, lambda table: table.slice(0, 0)), Reason.EMPTY
    )
    yield Kind(
        "rows_lost",
        V21,
        partial(_table_with, data, lambda table: table.slice(0, 9)),
        Reason.LENGTH_MISMATCH,
    )
    yield Kind(
        "end_lost",
        V30,
        partial(_table_with, DATA_V30, lambda table: table.slice(0, 50)),
        Reason.LENGTH_MISMATCH,
    )
    yield Kind("rows_without_episode", V30, _lost_episode, Reason.METADATA_MISMATCH, WARNING)
    yield Kind("row_dropped", V21, _row_dropped, Reason.FRAME_GAP)
    yield Kind(
        "row_repeated", V21, partial(_table_with, data, partial(_repeated, 5)), Reason.FRAME_REPEAT
    )
    yield Kind(
        "index_jumps",
        V21,
        partial(_column, "index", partial(_add, slice(None), 100), data),
        Reason.INDEX_GAP,
        WARNING,
    )
    yield Kind("rows_of_another", V21, _rows_of_another, Reason.METADATA_MISMATCH)
    yield Kind(
        "column_absent",
        V21,
        partial(_table_with, data, lambda table: table.drop_columns("action")),
        Reason.SHAPE_CHANGED,
    )
    yield Kind(
        "column_undeclared",
        V30,
        partial(_info_with, lambda info: info["features"].pop("action")),
        Reason.METADATA_MISMATCH,
        WARNING,
    )
    yield Kind("shape_changed", V21, _wider_state, Reason.SHAPE_CHANGED)
    yield Kind(
        "other_type_throughout",
        V30,
        partial(_table_with, DATA_V30, _doubled),
        Reason.SHAPE_CHANGED,
        WARNING,
    )
    yield Kind(
        "type_changed", V21, partial(_table_with, data_v21(1), _doubled), Reason.SHAPE_CHANGED
    )


def _of_numbers() -> Iterator[Kind]:
    data, stats = data_v21(1), "meta/episodes_stats.jsonl"
    times = partial(_column, "timestamp")
    yield Kind(
        "wrong_fps",
        V21,
        partial(_info_with, lambda info: info.update(fps=20)),
        Reason.BAD_TIMESTAMPS,
    )
    yield Kind("clock_drifts", V21, partial(times, _drifting, data), Reason.BAD_TIMESTAMPS)
    yield Kind(
        "clock_goes_back",
        V30,
        partial(times, partial(_set, slice(8, 20), 0.05), DATA_V30),
        Reason.BAD_TIMESTAMPS,
    )
    yield Kind(
        "no_time", V21, partial(times, partial(_set, 3, np.nan), data), Reason.BAD_TIMESTAMPS
    )
    yield Kind(
        "frames_dropped",
        V21,
        partial(times, partial(_add, slice(6, None), 0.3), data),
        Reason.FRAME_GAP,
    )
    yield Kind(
        "time_repeated",
        V30,
        partial(times, lambda values: _set(6, values[5], values), DATA_V30),
        Reason.FRAME_REPEAT,
    )
    yield Kind(
        "nan_action",
        V21,
        partial(_column, "action", partial(_set, (4, 1), np.nan), data),
        Reason.NON_FINITE,
    )
    yield Kind(
        "infinite_state",
        V30,
        partial(_column, "observation.state", partial(_set, (30, 0), -np.inf), DATA_V30),
        Reason.NON_FINITE,
    )
    yield Kind(
        "out_of_range",
        V21,
        partial(_info_with, lambda info: info["features"]["action"].update(min=-0.5, max=0.5)),
        Reason.OUT_OF_RANGE,
    )
    yield Kind(
        "action_constant",
        V21,
        partial(_column, "action", partial(_set, slice(None), 0.25), data),
        Reason.CONSTANT,
        WARNING,
    )
    yield Kind(
        "stats_of_another_v21",
        V21,
        partial(_lines_with, stats, lambda rows: rows[1].update(stats=rows[0]["stats"])),
        Reason.STATS_MISMATCH,
        WARNING,
    )
    yield Kind(
        "stats_stale_v30",
        V30,
        partial(_column, "action", partial(_set, (25, 0), 9.0), DATA_V30),
        Reason.STATS_MISMATCH,
        WARNING,
    )


def _of_pictures() -> Iterator[Kind]:
    video = video_v21(1)
    yield Kind("video_absent", V21, partial(_removed, video), Reason.VIDEO_MISSING)
    yield Kind("video_empty", V21, partial(_bytes, video, b""), Reason.EMPTY)
    yield Kind("video_pointer", V30, partial(_pointer, VIDEO_V30), Reason.LFS_POINTER)
    yield Kind("video_cut", V21, partial(_cut, video, 0.6), Reason.VIDEO_TRUNCATED)
    yield Kind("video_is_text", V21, partial(_bytes, video, b"<html>" * 99), Reason.NOT_VIDEO)
    yield Kind("video_bytes_flipped", V21, _bytes_flipped, Reason.CORRUPT, deep=True)
    yield Kind("video_of_another", V21, _video_of_another, Reason.VIDEO_LENGTH_MISMATCH)
    yield Kind(
        "video_one_frame_more",
        V21,
        partial(_video, num_frames=LENGTHS[1] + 1),
        Reason.VIDEO_LENGTH_MISMATCH,
        WARNING,
    )
    yield Kind("video_of_other_fps", V21, partial(_video, fps=12), Reason.VIDEO_TIMESTAMPS)
    yield Kind("video_of_other_size", V21, partial(_video, size=(48, 64)), Reason.SHAPE_CHANGED)
    yield Kind(
        "span_beyond_the_file",
        V30,
        partial(_rows_with, EPISODES_V30, partial(_moved, 2, 9.0, 9.0)),
        Reason.VIDEO_LENGTH_MISMATCH,
    )
    yield Kind(
        "span_off_by_a_third",
        V30,
        partial(_rows_with, EPISODES_V30, partial(_moved, 1, 0.033, 0.033)),
        Reason.VIDEO_TIMESTAMPS,
    )
    yield Kind(
        "spans_overlap",
        V30,
        partial(_rows_with, EPISODES_V30, partial(_moved, 1, -0.5, -0.5)),
        Reason.METADATA_MISMATCH,
        WARNING,
    )


# Verdicts -----------------------------------------------------------------------------------------


def verdict(folder: Path, *, deep: bool = False) -> list[Finding]:
    """What the check says of a dataset."""
    corpus = connector("lerobot").open(locate(folder), {})
    assert isinstance(corpus, EpisodeCorpus)
    return list(check_corpus(corpus, deep=deep))


def due_at_ingest(kind: Kind, found: Sequence[Finding]) -> str:
    """What an ingest must make of a dataset of which the check found this."""
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    if whole := [finding for finding in errors if finding.episode_id is None]:
        return f"refused: {whole[0].reason}"
    # An ingest decodes nothing.
    if not errors or kind.deep:
        return "all in"
    return f"{len({finding.episode_id for finding in errors})} in quarantine"


def at_ingest(lake: Lake, folder: Path) -> str:
    """What an ingest makes of a dataset."""
    try:
        report = ingest(
            lake,
            folder,
            folder.name.replace(".", "_"),
            connector="lerobot",
            executor="local",
            max_bad_fraction=1.0,
        )
    except InputError as error:
        # `… as it is [empty_metadata]`
        return f"refused: {error.what.rpartition('[')[2].rstrip(']')}"
    return f"{report.num_refused} in quarantine" if report.num_refused else "all in"


def make(root: Path) -> list[Kind]:
    """Write the good datasets and a broken copy for every kind."""
    for version in (V21, V30):
        write_good(root / f"{version}-good", version)
    zoo = kinds()
    for kind in zoo:
        shutil.copytree(root / f"{kind.version}-good", root / kind.folder)
        kind.break_(root / kind.folder)
    return zoo


def main() -> int:
    """Make the datasets, check and ingest each, and print what was said."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that is not there yet")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} is there already: name a new folder")
    zoo = make(folder)
    lake = open_lake(folder / "lake", create=True)
    rows = [_good_row(lake, folder / f"{version}-good") for version in (V21, V30)]
    rows += [_row(lake, folder / kind.folder, kind) for kind in zoo]
    console.print_table(rows)
    num_wrong = sum(row["verdict"] != "as due" for row in rows)
    print()
    if num_wrong:
        print(f"{num_wrong} of {len(rows)} verdicts are not the ones that are due")
    else:
        print(f"{len(zoo)} kinds, each with its reason")
    print(f"See one again with: datalake check {folder / zoo[0].folder}")
    return 1 if num_wrong else 0


def _good_row(lake: Lake, folder: Path) -> Row:
    found, came = verdict(folder, deep=True), at_ingest(lake, folder)
    is_right = not found and came == "all in"
    return {
        "dataset": folder.name,
        "due": "nothing",
        "verdict": "as due" if is_right else "wrong",
        "ingest": came,
    }


def _row(lake: Lake, folder: Path, kind: Kind) -> Row:
    found, came = verdict(folder, deep=kind.deep), at_ingest(lake, folder)
    due = [f for f in found if (f.reason, f.severity) == (kind.due, kind.severity)]
    is_right = due and came == due_at_ingest(kind, found)
    said = dict.fromkeys(f"{finding.severity} {finding.reason}" for finding in found)
    first = due[0] if due else None
    return {
        "dataset": folder.name,
        "due": f"{kind.severity} {kind.due}",
        "verdict": "as due" if is_right else f"wrong: {', '.join(said) or 'nothing'}",
        "ingest": came,
        "episode": first and first.episode_id and first.episode_id[-6:],
        "frame": first and first.frame_index,
        "detail": first and first.detail,
    }


if __name__ == "__main__":
    sys.exit(main())
