"""Detectors as files: weights and what their design is, readable without running any code."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from curation.probe.detector import Design, NeuralDetector, load_design
from datalake.errors import InputError, NotFoundError

__all__ = ["load_detector", "save_detector"]

_FORMAT: Final = 1


def save_detector(detector: NeuralDetector, path: str | os.PathLike[str]) -> None:
    """Write a detector's weights, on the CPU, and what its design is to `path`."""
    weights = {name: value.cpu() for name, value in detector.network.state_dict().items()}
    content = {
        "format": _FORMAT,
        "design": detector.name,
        "column": detector.column,
        "num_spoof_prototypes": detector.num_spoof_prototypes,
        "weights": weights,
    }
    partial = Path(path).with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)


def load_detector(path: str | os.PathLike[str], design: Design | None = None) -> NeuralDetector:
    """The detector that `save_detector` wrote, on the CPU, ready to score.

    Args:
        path: the file.
        design: the design it has; None finds it among the installed ones by its name. The column
            it reads and its number of prototypes are the file's.

    Raises:
        NotFoundError: there is no such file, or its design is not installed.
        InputError: the file is no detector of this format.
    """
    try:
        # Weights only: a file from a stranger must not run code.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise NotFoundError("There is no detector here", where=str(path)) from error
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise InputError(
            "The file is no detector", where=str(path), found=f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(
            "The file is no detector of this format", where=str(path), expected=f"format {_FORMAT}"
        )
    # Files of before have neither; they are of designs that hear audio and have a classifier.
    design = replace(
        design or load_design(content["design"]),
        column=content.get("column"),
        num_spoof_prototypes=content.get("num_spoof_prototypes", 0),
    )
    with torch.random.fork_rng():
        detector = design.build()
    try:
        detector.network.load_state_dict(content["weights"])
    except RuntimeError as error:
        raise InputError(
            "The weights do not fit the design",
            where=str(path),
            expected=design.name,
            found=str(error),
        ) from error
    return detector.eval()
