"""Detectors on real speech: each does well better than chance on clips it has not heard.

The clips that test are others, but of generators that trained too: this asks whether a detector
works, not how far it carries.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from curation.order import place
from curation.probe import (
    AASIST,
    EMBEDDING_MLP,
    LFCC_LCNN,
    Design,
    FeatureStore,
    TrainingSettings,
    read_keys,
    run_seeds,
)
from datalake import tables
from datalake.schema import UTTERANCES
from datalake.tables import Table
from datalake.uri import Location

SETTINGS = TrainingSettings(num_steps=120, batch_size=32, check_every=30, learning_rate=2e-3)


@pytest.fixture(scope="module")
def speech(shared_dir: Path) -> Table:
    folder = shared_dir / "data" / "speech"
    rows = []
    with (folder / "manifest.csv").open() as file:
        for line in csv.DictReader(file):
            data = next(folder.glob(str(Path(line["path"]).with_suffix(".*")))).read_bytes()
            generator = line["generator"] if line["label"] == "spoof" else None
            rows.append(
                {
                    "utt_id": line["path"],
                    "source": line["source"],
                    "generator": generator,
                    "label": line["label"],
                    "domain": f"{line['source']}/{generator}" if generator else line["source"],
                    "speaker_id": line["speaker"],
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "audio": data,
                }
            )
    heard = tables.create_table(Location("memory://speech"), UTTERANCES, format="memory")
    return heard.append(pa.Table.from_pylist(rows, schema=UTTERANCES))


@pytest.fixture(scope="module")
def embedded(speech: Table) -> Table:
    """With mean and standard deviation over time of LFCC."""
    store = FeatureStore(speech, LFCC_LCNN, duration_s=3, device="cpu")
    every = np.arange(speech.count_rows())
    store.ensure(every)
    lfcc = store.features(every).numpy()
    vectors = np.concatenate([lfcc.mean(2), lfcc.std(2)], axis=1)
    kind = pa.list_(pa.float32(), vectors.shape[1])
    rows = speech.scan().read_all()
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    wide = rows.append_column(pa.field("lfcc_stats", kind), column)
    made = tables.create_table(Location("memory://embedded-speech"), wide.schema, format="memory")
    return made.append(wide)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("design", "changes"),
    [
        (LFCC_LCNN, {}),
        (LFCC_LCNN, {"num_spoof_prototypes": 4, "latent_augmentation": True, "sam_rho": 0.05}),
        (LFCC_LCNN, {"rawboost": 5, "codecs": ("mp3", "ulaw"), "augmented_share": 0.5}),
        (EMBEDDING_MLP, {}),
        (AASIST, {}),
    ],
    ids=["lfcc_lcnn", "latent space and SAM", "augmented", "embedding_mlp", "aasist"],
)
def test_better_than_chance(embedded: Table, design: Design, changes: dict[str, object]) -> None:
    keys = read_keys(embedded)
    tests = np.array([place(1, each.as_py()) < "6" for each in keys["utt_id"]])
    store = FeatureStore(embedded, design, duration_s=2, device="cpu", num_threads=2)
    (run,) = run_seeds(
        store,
        keys.filter(pa.array(~tests)),
        store,
        keys.filter(pa.array(tests)),
        design=design,
        settings=replace(SETTINGS, **changes),
    )
    pooled = next(
        line for line in run.evaluation.by_domain.to_pylist() if line["scope"] == "pooled"
    )
    assert pooled["eer_high"] < 0.42
