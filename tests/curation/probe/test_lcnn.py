from __future__ import annotations

import pytest
import torch

from curation.probe import LightCnn
from curation.probe.lcnn import MaxFeatureMap


def test_max_feature_map_is_the_maximum_of_the_halves() -> None:
    values = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.maximum(values[:, :3], values[:, 3:])
    torch.testing.assert_close(MaxFeatureMap()(values), expected)


def test_it_is_light() -> None:
    num_parameters = sum(each.numel() for each in LightCnn().parameters())
    assert 50_000 <= num_parameters <= 200_000


@pytest.mark.parametrize("num_frames", [16, 17, 100, 402])
def test_any_length_gives_one_score_a_row(num_frames: int) -> None:
    scores = LightCnn().eval()(torch.randn(3, 60, num_frames))
    assert scores.shape == (3,)
    assert torch.isfinite(scores).all()


def test_a_score_does_not_depend_on_the_batch() -> None:
    network = LightCnn().eval()
    features = torch.randn(4, 60, 64)
    alone = torch.cat([network(row[None]) for row in features])
    torch.testing.assert_close(network(features), alone, atol=1e-5, rtol=1e-4)
