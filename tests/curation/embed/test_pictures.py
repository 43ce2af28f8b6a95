"""Embeddings of pictures and of the keyframes of episodes."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from PIL import Image
from transformers import AutoModel, CLIPConfig, CLIPModel, ViTConfig, ViTModel

from curation.embed.hf_image import HfImage
from curation.embed.keyframes import Keyframes, describe
from curation.embed.pictures import Pictures, evenly
from datalake.episodes import open_episodes
from datalake.errors import InputError, SchemaError
from datalake.lake import Lake, Lineage, open_lake
from datalake.pipelines.annotation import annotate
from datalake.schema import media_field
from datalake.video import VideoInfo, VideoReader
from datalake.video.pictures import decode_picture
from tests.curation.embed.rows import check_promises, vectors
from tests.robots import CAMERA, WRIST, write_robots

_numbers = itertools.count()


@pytest.fixture
def lake() -> Lake:
    return open_lake(f"memory://pictures{next(_numbers)}")


def png(picture: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    return buffer.getvalue()


def noise(height: int, width: int, seed: int, channels: int = 3) -> np.ndarray:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def with_images(lake: Lake) -> None:
    """A table of images; the last rows have none, and damaged ones."""
    files = [png(noise(30, 40, 0)), png(noise(64, 64, 1)), png(noise(20, 9, 2, 1)), None, b"png"]
    field = media_field("image", "image")
    schema = pa.schema([pa.field("id", pa.string()), field])
    rows = pa.table({"id": list("abcde"), "image": files}, schema=schema)
    lake.create("t", schema, lineage=Lineage("create")).append(rows)


def images_of(lake: Lake) -> pa.Table:
    return lake["t"].scan(["image"]).read_all()


def write_clip(folder: Path) -> Path:
    transformers.utils.logging.disable_progress_bar()
    tower = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }  # fmt: skip
    text = {**tower, "vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    vision = {**tower, "image_size": 32, "patch_size": 8}
    torch.manual_seed(0)
    CLIPModel(
        CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    ).save_pretrained(folder)
    return with_processor(folder, "CLIPImageProcessor")


def with_processor(folder: Path, kind: str) -> Path:
    size = '{"shortest_edge": 32}' if kind == "CLIPImageProcessor" else '{"height":32,"width":32}'
    (folder / "preprocessor_config.json").write_text(
        f'{{"image_processor_type": "{kind}", "size": {size},'
        ' "crop_size": {"height": 32, "width": 32}}'
    )
    return folder


def write_vit(folder: Path) -> Path:
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        image_size=32, patch_size=8,
    )  # fmt: skip
    # As DINO's checkpoints: without the pooler that the model would make up.
    ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    return with_processor(folder, "ViTImageProcessor")


# By hand ----------------------------------------------------------------------------------------


def test_images_are_described_one_by_one(lake: Lake) -> None:
    with_images(lake)
    made = check_promises(Keyframes(lake, "t"), images_of(lake))
    errors = [str(error).partition(":")[0] for error in made["error"].to_pylist()]
    assert errors == ["None"] * 3 + ["there is no picture", "corrupt"]


def test_a_plain_picture_is_its_brightness() -> None:
    found = describe(np.full((33, 51, 3), 102, np.uint8))
    assert found[0] == pytest.approx(0.4)
    assert np.abs(found[1:]).max() < 1e-9


def test_the_descriptor_is_what_a_slow_one_finds() -> None:
    picture = noise(64, 64, 3)
    grey = (picture @ np.array([0.299, 0.587, 0.114])) / 255
    found = describe(picture)
    for u, v in ((0, 0), (1, 0), (0, 7), (5, 3)):
        total = sum(
            grey[y, x] * np.cos(np.pi / 64 * (y + 0.5) * u) * np.cos(np.pi / 64 * (x + 0.5) * v)
            for y in range(64)
            for x in range(64)
        )
        scale = np.sqrt((2 if u else 1) * (2 if v else 1)) / 64 / 64
        assert found[u * 8 + v] == pytest.approx(total * scale, abs=1e-12)
    histogram = np.zeros((4, 4, 8))
    down, right = np.gradient(grey)
    for y in range(64):
        for x in range(64):
            place = np.arctan2(down[y, x], right[y, x]) / (np.pi / 4) % 8
            magnitude = np.hypot(down[y, x], right[y, x])
            low = int(place) % 8
            histogram[y // 16, x // 16, low] += magnitude * (1 - place % 1)
            histogram[y // 16, x // 16, (low + 1) % 8] += magnitude * (place % 1)
    np.testing.assert_allclose(found[64:], histogram.ravel() / np.linalg.norm(histogram), atol=1e-9)


def test_size_hardly_matters() -> None:
    small = noise(32, 32, 4)
    large = np.kron(small, np.ones((4, 4, 1), np.uint8))
    np.testing.assert_allclose(describe(small)[:64], describe(large)[:64], atol=1e-9)


@pytest.mark.parametrize(("number", "most", "found"), [
    (3, 8, [0, 1, 2]), (10, 4, [0, 3, 6, 9]), (9, 1, [4]), (100, 2, [0, 99]),
])  # fmt: skip
def test_pictures_stand_at_equal_steps(number: int, most: int, found: list[int]) -> None:
    assert evenly(np.arange(number), most).tolist() == found


# Episodes ---------------------------------------------------------------------------------------


def test_an_episode_is_the_mean_over_its_keyframes(lake: Lake) -> None:
    g1 = write_robots(lake)
    embedder = Keyframes(lake, "g1.episodes", CAMERA)
    made = check_promises(embedder, g1.episodes.scan().read_all())
    assert made["error"].null_count == 5
    videos = {row["video_id"]: row for row in g1.videos.scan().read_all().to_pylist()}
    for episode, found in zip(
        g1.episodes.scan(["videos"]).read_all().to_pylist(), vectors(made), strict=True
    ):
        [span] = episode["videos"]
        row = videos[span["video_id"]]
        info = VideoInfo.from_row(row)
        first, last = round(span["from_s"] * info.fps), round(span["to_s"] * info.fps)
        keys = [key for key in info.keyframes.tolist() if first <= key < last] or [first]
        with VideoReader(row["video"], info) as reader:
            expected = np.mean([describe(picture) for picture in reader.frames(keys)], axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_an_image_feature_gives_frames_at_equal_steps(lake: Lake) -> None:
    g1 = write_robots(lake, video=False)
    found = vectors(
        Keyframes(lake, "g1.episodes", num_pictures=3).open()(g1.episodes.scan().read_all())
    )
    start = int(g1.index.starts[2])
    images = g1.frames.take([start, start + 10, start + 19], ["observation/images/wrist"])
    pictures = [decode_picture(each) for each in images[0].to_pylist()]
    np.testing.assert_allclose(found[2], np.mean([describe(p) for p in pictures], 0), atol=1e-6)


def test_episodes_are_annotated_and_stay_a_set(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    write_robots(lake)
    report = annotate(
        lake, "g1.episodes", Keyframes(lake, "g1.episodes", CAMERA), executor="local",
        columns={"keyframes": "look"}, rows_per_unit=2,
    )  # fmt: skip
    assert report.num_annotated == 5
    assert open_episodes(lake, "g1").episodes.count_rows("look IS NOT NULL") == 5


def test_which_pictures_must_be_clear(lake: Lake) -> None:
    write_robots(lake)
    with pytest.raises(InputError, match="Which camera is meant") as error:
        Keyframes(lake, "g1.episodes")
    assert (WRIST in str(error.value), CAMERA in str(error.value)) == (True, True)
    with pytest.raises(SchemaError, match="no camera 'x'"):
        Pictures(lake, "g1.episodes", "x")
    with pytest.raises(InputError, match="takes episodes"):
        Pictures(lake, "g1.frames")
    lake.create("t", pa.schema([pa.field("a", pa.int64())]), lineage=Lineage("create"))
    with pytest.raises(InputError, match="no column of images"):
        Pictures(lake, "t")


# Models -----------------------------------------------------------------------------------------


def test_clip_embeds_images_as_the_model_does(lake: Lake, tmp_path: Path) -> None:
    with_images(lake)
    path = write_clip(tmp_path / "clip")
    rows = images_of(lake)
    made = check_promises(HfImage(lake, "t", str(path)), rows)
    assert made["hf_image"].type.list_size == 12
    assert made["hf_image"].null_count == 2
    picture = decode_picture(rows["image"][1].as_py())
    # By hand: resized to 32 x 32, bicubic, in the model's mean and deviation.
    resized = np.asarray(Image.fromarray(picture).resize((32, 32), Image.Resampling.BICUBIC)) / 255
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    values = torch.from_numpy((resized - mean) / std).permute(2, 0, 1)[None].float()
    network = AutoModel.from_pretrained(path).eval()
    with torch.no_grad():
        found = network.visual_projection(network.vision_model(values).pooler_output)[0]
    np.testing.assert_allclose(vectors(made)[1], found / found.norm(), atol=2e-3)


def test_vit_gives_the_first_token_of_a_layer(lake: Lake, tmp_path: Path) -> None:
    with_images(lake)
    path = str(write_vit(tmp_path / "vit"))
    rows = images_of(lake).slice(0, 2)
    made = {layer: vectors(HfImage(lake, "t", path, layer).open()(rows)) for layer in (None, 1)}
    assert made[None].shape == (2, 16)
    np.testing.assert_allclose(np.linalg.norm(made[1], axis=1), 1, atol=1e-6)
    assert np.abs(made[None] - made[1]).max() > 1e-3
    with pytest.raises(InputError, match="no such layer"):
        HfImage(lake, "t", path, 3)


def test_episodes_are_embedded_by_a_model(lake: Lake, tmp_path: Path) -> None:
    g1 = write_robots(lake)
    embedder = HfImage(lake, "g1.episodes", str(write_vit(tmp_path / "vit")), column=CAMERA)
    made = embedder.open()(g1.episodes.scan().read_all())
    assert made["error"].null_count == 5
    assert np.linalg.norm(vectors(made), axis=1).max() <= 1 + 1e-6


def test_what_is_no_model_of_pictures_is_said(lake: Lake, tmp_path: Path) -> None:
    with_images(lake)
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no model of pictures"):
        HfImage(lake, "t", str(tmp_path))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(lake: Lake, tmp_path: Path) -> None:
    with_images(lake)
    path = str(write_clip(tmp_path / "clip"))
    rows = images_of(lake).slice(0, 3)
    here, there = (
        vectors(HfImage(lake, "t", path, device=device).open()(rows)) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(here, there, atol=1e-4)


def test_an_episode_without_an_end_goes_on_to_that_of_its_file(lake: Lake) -> None:
    g1 = write_robots(lake)
    work = Keyframes(lake, "g1.episodes", CAMERA).open()
    rows = g1.episodes.take([2])
    episode = rows.to_pylist()[0]
    episode["videos"][0]["to_s"] = None
    endless = pa.Table.from_pylist([episode], rows.schema)
    assert work(endless).to_pydict() == work(rows).to_pydict()
    # A span beyond the file has no frame.
    episode["videos"][0]["from_s"] = 99.0
    beyond = work(pa.Table.from_pylist([episode], rows.schema))
    assert beyond["error"].to_pylist() == ["no frame of the video lies in the episode"]
