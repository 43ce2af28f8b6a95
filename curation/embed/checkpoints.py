"""Hugging Face checkpoints in a folder: read from there, never from a hub, and known by digest."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from datalake.errors import InputError, LakeError, MissingPackageError, NotFoundError

__all__ = ["Checkpoint"]

_SETTINGS: Final = ("config.json", "preprocessor_config.json")
_WEIGHTS: Final = (".safetensors", ".bin")


@dataclass(frozen=True)
class Checkpoint:
    """A model in a folder. Picklable: workers load it from the same path."""

    path: str
    digest: str
    """SHA-256 over the names and bytes of its settings and weights."""

    @classmethod
    def at(cls, path: str) -> Self:
        """The checkpoint in a folder; reads all of it once.

        Raises:
            NotFoundError: there is no such folder, or no checkpoint in it.
            MissingPackageError: transformers or torch is not installed.
        """
        for package in ("torch", "transformers"):
            try:
                __import__(package)
            except ImportError as error:
                raise MissingPackageError.of(package, "embed", "Hugging Face models") from error
        return cls(str(Path(path).absolute()), _digest(Path(path)))

    @property
    def config(self) -> dict[str, Any]:
        """Its `config.json`.

        Raises:
            InputError: it is no JSON object.
        """
        place = Path(self.path) / "config.json"
        try:
            found = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                "The model's configuration cannot be read", where=str(place), found=str(error)
            ) from error
        if not isinstance(found, dict):
            raise InputError("The model's configuration is no JSON object", where=str(place))
        return found

    def load(self, processor: str) -> tuple[Any, Any]:
        """The model, in float32 and for inference, and what prepares its input.

        Args:
            processor: `AutoFeatureExtractor` or `AutoImageProcessor`.

        Raises:
            LakeError: it cannot be loaded, or the folder has changed.
        """
        if (found := _digest(Path(self.path))) != self.digest:
            raise LakeError(
                "The model is another one than when the work began",
                where=self.path,
                expected=self.digest[:16],
                found=found[:16],
                fix="Let all workers see the same files, and leave them alone meanwhile",
            )
        import torch
        import transformers

        try:
            with _quiet():
                prepare = getattr(transformers, processor).from_pretrained(
                    self.path, local_files_only=True
                )
                model, report = transformers.AutoModel.from_pretrained(
                    self.path, local_files_only=True, dtype=torch.float32, output_loading_info=True
                )
        # Whatever its code and files make it raise.
        except Exception as error:
            raise LakeError(
                "The model cannot be loaded",
                where=self.path,
                found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
                fix="Name a folder that save_pretrained wrote, with its preprocessor_config.json",
            ) from error
        # Weights that are not in the file would be random ones.
        if missing := sorted(name for name in report["missing_keys"] if "pooler" not in name):
            raise LakeError(
                "The checkpoint lacks weights of its model",
                where=self.path,
                found=f"{len(missing)} are missing, such as {missing[0]}",
            )
        return model.eval(), prepare


def _digest(folder: Path) -> str:
    """SHA-256 over what decides the values, in the order of names."""
    if not (folder / "config.json").is_file():
        raise NotFoundError(
            "There is no model here",
            where=str(folder),
            expected="a folder with config.json, preprocessor_config.json and the weights",
            fix="Name a folder of this machine; nothing is fetched from a hub",
        )
    files = sorted(
        place for place in folder.iterdir() if place.name in _SETTINGS or place.suffix in _WEIGHTS
    )
    found = hashlib.sha256()
    for place in files:
        found.update(f"{place.name}\0{place.stat().st_size}\0".encode())
        with place.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading prints bars and advice; what matters of it comes as errors."""
    from transformers.utils import logging as transformers_logging

    theirs: Any = transformers_logging
    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.ERROR)
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        if bars:
            theirs.enable_progress_bar()
