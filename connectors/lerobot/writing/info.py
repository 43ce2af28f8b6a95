"""`meta/info.json` of an export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.features import BOOKKEEPING_FEATURES, definition
from connectors.lerobot.writing.stats import nested
from datalake.episodes.statistics import FeatureStats

__all__ = ["features_json", "info_json", "stats_json"]


def features_json(
    chosen: Chosen, videos: Mapping[str, Mapping[str, Any]], *, encoded: bool
) -> dict[str, Any]:
    """The definitions of all features.

    Args:
        chosen: the episodes.
        videos: the facts of a written video file, by camera.
        encoded: whether the videos are encoded anew, so that their source's word of them is stale.
    """
    found = {}
    for feature in chosen.features:
        is_told = "info" in feature.info or "video_info" in feature.info
        video = videos[feature.name] if feature.name in videos and not is_told else None
        if encoded and feature.dtype == "video":
            video = videos[feature.name]
        found[feature.name] = definition(feature, video)
    return found | {feature.name: definition(feature) for feature in BOOKKEEPING_FEATURES}


def info_json(version: str, chosen: Chosen, own: Mapping[str, Any], features: Any) -> bytes:
    """The file: what all versions say, and `own`, what one of them adds."""
    fps = int(chosen.fps) if chosen.fps == int(chosen.fps) else chosen.fps
    info = {
        "codebase_version": version,
        "robot_type": chosen.robot_type,
        "total_episodes": len(chosen.rows),
        "total_frames": chosen.num_frames,
        "total_tasks": len(chosen.tasks.texts),
        **own,
        "fps": fps,
        "splits": {name: f"{first}:{end}" for name, (first, end) in chosen.splits.items()},
        "features": features,
    }
    return json.dumps(info, indent=4, ensure_ascii=False).encode()


def stats_json(stats: Mapping[str, FeatureStats], chosen: Chosen) -> dict[str, dict[str, Any]]:
    """Statistics as JSON values, by feature; figures that are not known are left out."""
    found = {}
    for feature in [*chosen.features, *BOOKKEEPING_FEATURES]:
        if feature.name in stats:
            own = stats[feature.name]
            figures = {name: nested(figure, feature) for name, figure in own.as_dict().items()}
            found[feature.name] = {
                **{name: figure for name, figure in figures.items() if figure is not None},
                "count": [own.count],
            }
    return found
