"""Any Hugging Face model of pictures by local path: CLIP, SigLIP, ViT, DeiT, DINO, DINOv2.

Radford et al., "CLIP" (2021); Dosovitskiy et al., "ViT" (2020); Caron et al., "DINO" (2021). The
embedding of a picture has length 1. It is made of

- models of pictures and text without `layer`: what they compare with text (`projection_dim`
  numbers);
- others, and with `layer`: the first token of the layer's output (`hidden_size` numbers); the mean
  over all places for models without such a token.

Of an episode: the mean over its pictures, whose length says how alike they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.checkpoints import Checkpoint
from curation.embed.devices import on_device
from curation.embed.hf_audio import check_layer
from curation.embed.pictures import Picture, PictureEmbedding, Pictures
from curation.embed.vectors import embedding_field
from datalake.errors import InputError, LakeError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["HfImage"]

_VERSION: Final = 1
# Their first token is that of a patch like any other.
_WITHOUT_CLASS_TOKEN: Final = ("siglip", "siglip2", "swin", "swinv2")


@dataclass(frozen=True)
class HfImage:
    """Embeds images, or episodes by their keyframes, by a Hugging Face model; an `Annotator`.

    Args:
        lake: where the table is.
        table: one with images, or `<set>.episodes`.
        model: the folder that has the model.
        layer: which layer's output: 0 is what goes into the first, negative numbers count from the
            last. None: the model's output.
        column: the column or the camera; None where there is only one.
        num_pictures: how many stand for an episode at most.
        device: `auto` is CUDA where there is one.

    Raises:
        NotFoundError: there is no model at the path.
        InputError: it is no model of pictures, or has no such layer; or as `Pictures`.
        MissingPackageError: transformers or torch is not installed.
    """

    lake: Lake
    table: str
    model: str
    layer: int | None = None
    column: str | None = None
    num_pictures: int = 8
    device: str = "auto"
    pictures: Pictures = field(init=False, repr=False)
    checkpoint: Checkpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = Pictures(self.lake, self.table, self.column, self.num_pictures)
        object.__setattr__(self, "pictures", found)
        object.__setattr__(self, "checkpoint", Checkpoint.at(self.model))
        if "image_size" not in self._vision or "hidden_size" not in self._vision:
            raise InputError(
                "This is no model of pictures",
                where=self.model,
                expected="a model such as CLIP, ViT or DINO",
                found=f"one of the type {self.checkpoint.config.get('model_type')}",
            )
        check_layer(self.layer, int(self._vision["num_hidden_layers"]), self.model)

    num_gpus = 1.0
    """GPUs that a worker asks for, where a cluster has some."""

    @property
    def _vision(self) -> Mapping[str, Any]:
        """What the configuration says of the tower that sees, defaults filled in."""
        from transformers import AutoConfig

        try:
            config = AutoConfig.from_pretrained(self.checkpoint.path, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                "The model's configuration cannot be read",
                where=self.model,
                found=" ".join(str(error).split())[:300],
            ) from error
        found: Mapping[str, Any] = getattr(config, "vision_config", config).to_dict()
        return found

    @property
    def _projects(self) -> bool:
        return self.layer is None and "vision_config" in self.checkpoint.config

    @property
    def _size(self) -> int:
        if self._projects and "projection_dim" in self.checkpoint.config:
            return int(self.checkpoint.config["projection_dim"])
        if self._projects and self.checkpoint.config.get("model_type") == "clip":
            return 512  # What the configuration leaves out is the default.
        return int(self._vision["hidden_size"])

    @property
    def reads(self) -> tuple[str, ...]:
        """The images, or what finds those of an episode."""
        return self.pictures.reads

    @property
    def adds(self) -> pa.Schema:
        """`hf_image`, of the model's size."""
        return pa.schema([embedding_field("hf_image", self._size, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The model's kind and digest, how it is used, and the pictures."""
        return {
            "embedder": "hf_image",
            "version": _VERSION,
            "model": self.checkpoint.config.get("model_type"),
            "model_digest": self.checkpoint.digest,
            "layer": self.layer,
            **self.pictures.settings,
        }

    def open(self) -> Annotate:
        """Load the model, and open the set for episodes.

        Raises:
            LakeError: it cannot be loaded.
        """
        network, processor = self.checkpoint.load("AutoImageProcessor")
        embedding = _Embedding(
            network.to(on_device(self.device)), processor, self.layer, projects=self._projects
        )
        return PictureEmbedding(self.pictures.open(), self.adds.field(0), embedding)


class _Embedding:
    def __init__(self, network: Any, processor: Any, layer: int | None, *, projects: bool) -> None:
        self._network, self._processor = network, processor
        self._layer, self._projects = layer, projects
        kind = getattr(network.config, "vision_config", network.config).model_type
        self._has_token = not any(kind.startswith(name) for name in _WITHOUT_CLASS_TOKEN)

    def __call__(self, picture: Picture) -> npt.NDArray[np.float64]:
        import torch

        values = self._processor(images=[picture], return_tensors="pt")["pixel_values"]
        with torch.inference_mode():
            found = self._vector(values.to(self._network.device)).double()
            unit: npt.NDArray[np.float64] = (found / found.norm()).cpu().numpy()
        return unit

    def _vector(self, values: Any) -> Any:
        if self._projects:
            found = self._network.get_image_features(pixel_values=values)
            # A tensor before transformers 5.
            return getattr(found, "pooler_output", found)[0]
        tower = getattr(self._network, "vision_model", self._network)
        found = tower(pixel_values=values, output_hidden_states=self._layer is not None)
        states = (
            found.last_hidden_state if self._layer is None else found.hidden_states[self._layer]
        )[0]
        if states.ndim not in (2, 3):
            raise LakeError("The model gives no places", found=f"shape {tuple(states.shape)}")
        if states.ndim == 3:  # (channels, height, width)
            return states.flatten(1).mean(1)
        return states[0] if self._has_token else states.mean(0)
