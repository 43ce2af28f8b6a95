"""Tokens of frames, texts, sounds and pictures."""

from __future__ import annotations

import pytest

from datalake.errors import InputError
from datalake.packing import Characters, Item, Layout, Modality, Span, TokenCosts, modality_ids
from datalake.recording import Feature

FEATURES = (
    Feature("observation.state", "float32", (7,)),
    Feature("observation.images.front", "video", (480, 640, 3)),
    Feature("observation.images.wrist", "image", (240, 320, 3)),
    Feature("action", "float32", (7,)),
    Feature("next.reward", "float32", (1,)),
    Feature("note", "string"),
)


def test_a_frame_of_an_episode() -> None:
    layout = TokenCosts(state=2, action=3, image=256).of_episode(FEATURES)
    assert layout.frame_tokens == 2 + 3 + 2 * 256
    assert layout.fixed_tokens == 0
    ids = layout.modality_ids(2, head=4).tolist()
    text, image, state, action = (Modality.TEXT, Modality.IMAGE, Modality.STATE, Modality.ACTION)
    frame = [image] * 512 + [state] * 2 + [action] * 3
    assert ids == [text] * 4 + frame * 2


def test_pictures_cost_by_camera_or_by_patch() -> None:
    front, wrist = FEATURES[1], FEATURES[2]
    by_patch = TokenCosts(patch=14, cameras={wrist.name: 9})
    assert by_patch.of_image(front) == 35 * 46  # 480 / 14 = 34.3, 640 / 14 = 45.7
    assert by_patch.of_image(wrist) == 9
    with pytest.raises(InputError, match=r"size of the pictures of observation\.images\.up"):
        by_patch.of_image(Feature("observation.images.up", "video"))


def test_a_window_sees_its_history_and_does_its_chunk() -> None:
    costs = TokenCosts(image=10)
    layout = costs.of_window(FEATURES, history=1, chunk=5)
    assert layout.frame_tokens == 0
    assert layout.fixed_tokens == 2 * (10 + 10 + 1) + 5 * 1
    assert layout.totals(6) == {Modality.IMAGE: 40, Modality.STATE: 2, Modality.ACTION: 5}


def test_a_cost_of_nothing_leaves_a_thing_out() -> None:
    layout = TokenCosts(image=0, state=0).of_episode(FEATURES)
    assert [span.modality for span in layout.blocks[0].spans] == [Modality.ACTION]
    assert TokenCosts(other=1).of_episode(FEATURES[4:]).frame_tokens == 1
    assert Layout(()).modality_ids(5).tolist() == []


def test_texts_and_sounds() -> None:
    assert TokenCosts().of_text("pick the cube") == 4  # 13 characters
    assert TokenCosts().of_text(None) == TokenCosts().of_text("") == 0
    assert TokenCosts(text=Characters(1)).of_text("né") == 2
    assert TokenCosts(text=len).of_text("abc") == 3
    assert TokenCosts(audio_s=12.5).of_audio(1.01) == 13
    assert TokenCosts(video_frame=3).of_video(5) == 15


@pytest.mark.parametrize("wrong", [{"state": -1}, {"audio_s": float("nan")}, {"patch": 0}])
def test_costs_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"cost {next(iter(wrong))} is out of range"):
        TokenCosts(**wrong)  # type: ignore[arg-type]


def test_an_item_of_several_modalities() -> None:
    item = Item("a", "web", (Span(Modality.IMAGE, 3), Span(Modality.TEXT, 2)))
    assert item.num_tokens == 5
    assert item.main_modality is Modality.IMAGE
    assert modality_ids(item.spans).tolist() == [2, 2, 2, 1, 1]
    assert Item("b", "web", ()).main_modality is Modality.PADDING
