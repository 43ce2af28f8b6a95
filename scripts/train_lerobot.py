"""Train a real policy of the real `lerobot` package on an export, for a few steps.

    python scripts/train_lerobot.py EXPORT --lerobot-python PYTHON

A small ACT without pretrained weights, with the export's statistics for normalisation and action
chunks by delta_timestamps, as `lerobot-train` sets it up. It proves that the export opens, batches,
normalises and trains; that the loss falls within so few steps, on one batch that comes again, shows
that gradients flow. Exits 1 if a value is not finite or the loss does not fall.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Let the other interpreter train."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--lerobot-python", default=sys.executable)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pixels", type=int, default=96, help="side of the pictures it sees")
    given = parser.parse_args()
    if os.environ.get("TRAIN_LEROBOT_INSIDE"):
        return train(given)
    environment = {**os.environ, "TRAIN_LEROBOT_INSIDE": "1"}
    command = [given.lerobot_python, __file__, *sys.argv[1:]]
    return subprocess.run(command, env=environment, check=False).returncode


def train(given: argparse.Namespace) -> int:
    """Train, print the losses, and return the exit code."""
    import real_lerobot

    real_lerobot.prepare()
    import torch
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.datasets.utils import dataset_to_policy_features
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors
    from torchvision.transforms import v2

    torch.manual_seed(0)
    torch.set_num_threads(2)
    resize = v2.Resize((given.pixels, given.pixels))
    root = real_lerobot.readable(given.export)
    meta = real_lerobot.open_dataset(root).meta
    features = dataset_to_policy_features(meta.features)
    for name, feature in features.items():
        if name in meta.camera_keys:
            feature.shape = (feature.shape[0], given.pixels, given.pixels)
    outputs = {name: feature for name, feature in features.items() if name == "action"}
    config = ACTConfig(
        input_features={name: f for name, f in features.items() if name not in outputs},
        output_features=outputs,
        chunk_size=given.chunk,
        n_action_steps=given.chunk,
        dim_model=64,
        n_heads=4,
        dim_feedforward=128,
        n_encoder_layers=1,
        n_decoder_layers=1,
        n_vae_encoder_layers=1,
        latent_dim=8,
        pretrained_backbone_weights=None,
        device="cpu",
    )
    dataset = real_lerobot.open_dataset(
        root,
        delta_timestamps=resolve_delta_timestamps(config, meta),
        image_transforms=resize if meta.camera_keys else None,
    )
    policy = ACTPolicy(config)
    preprocess, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    optimiser = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(
        dataset, given.batch, shuffle=True, num_workers=given.workers, drop_last=True
    )
    print(f"{len(dataset):,} frames of {dataset.num_episodes} episodes; {_said(policy)} parameters")
    first = preprocess(next(iter(loader)))
    before = _loss(policy, first)
    losses = []
    policy.train()
    while len(losses) < given.steps:
        for batch in loader:
            loss, _ = policy.forward(preprocess(batch))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
            if len(losses) == given.steps:
                break
    after = _loss(policy, first)
    print("losses", " ".join(f"{loss:.3f}" for loss in losses))
    print(f"the first batch: {before:.3f} before, {after:.3f} after {given.steps} steps")
    return 0 if after < before and all(loss == loss for loss in losses) else 1


def _loss(policy: Any, batch: Any) -> float:
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        return float(policy.forward(batch)[0])


def _said(policy: Any) -> str:
    return f"{sum(parameter.numel() for parameter in policy.parameters()):,}"


if __name__ == "__main__":
    sys.exit(main())
