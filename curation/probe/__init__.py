"""Judge a selection by what a detector learns from it.

    keys            which utterances, and their weights: the key columns, no audio
    splits          who trains, who validates, who tests
    overlap         what training and test share
    detector        the protocol, designs, and the entry point group `datalake.detectors`
    lfcc, lcnn      a front end and a network: the default
    aasist          a network on raw waveforms; `graph_attention` has its layers
    embedding_mlp   a network on an embedding column
    latent_network  networks in two parts
    features        features of utterances, computed once
    batches         which rows make up a step
    augmentation    what becomes of a waveform: `rawboost`, `codec_pass`
    prototypes      latent-space refinement; `latent_augmentation` goes with it
    sharpness       sharpness-aware minimisation, and the figure
    training        a fixed number of steps, early stopping
    evaluation      EER by domain, by generator, pooled, macro
    experiment      all of it over several seeds, and the report
    proxy           domain weights as DoReMi learns them
    model_file      detectors as files

Importing this package imports torch, and raises `MissingPackageError` where it is not installed.
"""

from __future__ import annotations

from datalake.errors import MissingPackageError

try:
    import torch as _torch  # noqa: F401 - so that what is missing is named before all else
except ModuleNotFoundError as error:
    raise MissingPackageError.of("torch", "probe", "The probe") from error

from curation.embed.lfcc import Lfcc, LfccSettings
from curation.probe.aasist import AASIST_PAPER, AASIST_SMALL, Aasist, AasistSettings
from curation.probe.augmentation import Augmenter
from curation.probe.batches import Sampling
from curation.probe.codec_pass import CODECS
from curation.probe.detector import (
    AASIST,
    AASIST_LARGE,
    EMBEDDING_MLP,
    LFCC_LCNN,
    Design,
    Detector,
    NeuralDetector,
    load_design,
)
from curation.probe.embedding_mlp import EmbeddingMlp
from curation.probe.evaluation import Evaluation, evaluate
from curation.probe.experiment import Report, SeedRun, run_seeds
from curation.probe.features import FeatureStore
from curation.probe.keys import read_keys, with_weights
from curation.probe.latent_network import LatentNetwork
from curation.probe.lcnn import LightCnn
from curation.probe.model_file import load_detector, save_detector
from curation.probe.overlap import Overlap, find_overlaps, leaked, refuse_leaks
from curation.probe.proxy import ProxyRun, train_proxy
from curation.probe.splits import (
    HoldOut,
    hold_out_generators,
    hold_out_source,
    train_on_source,
    validation_mask,
)
from curation.probe.training import Check, TrainingResult, TrainingSettings, train

__all__ = [
    "AASIST",
    "AASIST_LARGE",
    "AASIST_PAPER",
    "AASIST_SMALL",
    "CODECS",
    "EMBEDDING_MLP",
    "LFCC_LCNN",
    "Aasist",
    "AasistSettings",
    "Augmenter",
    "Check",
    "Design",
    "Detector",
    "EmbeddingMlp",
    "Evaluation",
    "FeatureStore",
    "HoldOut",
    "LatentNetwork",
    "Lfcc",
    "LfccSettings",
    "LightCnn",
    "NeuralDetector",
    "Overlap",
    "ProxyRun",
    "Report",
    "Sampling",
    "SeedRun",
    "TrainingResult",
    "TrainingSettings",
    "evaluate",
    "find_overlaps",
    "hold_out_generators",
    "hold_out_source",
    "leaked",
    "load_design",
    "load_detector",
    "read_keys",
    "refuse_leaks",
    "run_seeds",
    "save_detector",
    "train",
    "train_on_source",
    "train_proxy",
    "validation_mask",
    "with_weights",
]
