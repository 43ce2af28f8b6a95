"""DNSMOS: what listeners would say of a clip's quality, predicted (P.835 and P.808).

Reddy et al., "DNSMOS P.835" (ICASSP 2022), by the models that the package `speechmos` ships. The
models were trained on noise suppression; of synthetic speech they say how clean it is, not how
natural.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake.audio import BadAudio, decode
from datalake.errors import MissingPackageError
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["DNSMOS", "DnsmosMeasures"]

_RATE_HZ: Final = 16_000
# By the names that the package gives them.
_COLUMNS: Final = {
    "dnsmos_overall": "ovrl_mos",
    "dnsmos_signal": "sig_mos",
    "dnsmos_background": "bak_mos",
    "dnsmos_p808": "p808_mos",
}


@dataclass(frozen=True)
class DnsmosMeasures:
    """Adds four mean opinion scores, 1 to 5; an `Annotator`. Some 50 ms a second of audio.

    Clips are mixed down, resampled to 16 kHz, and repeated to 9 s where they are shorter, as the
    package does.

    Args:
        audio: the column of encoded audio.
    """

    audio: str = "audio"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.audio,)

    @property
    def adds(self) -> pa.Schema:
        """A float32 a score."""
        return pa.schema([pa.field(name, pa.float32()) for name in _COLUMNS])

    @property
    def settings(self) -> Mapping[str, object]:
        """The package that has the models."""
        _package()
        return {"speechmos": version("speechmos"), "audio": self.audio}

    def open(self) -> Annotate:
        """Load the models.

        Raises:
            MissingPackageError: speechmos, onnxruntime or librosa is not installed.
        """
        package = _package()
        models = Path(package.__file__).parent / "dnsmos_models"
        return _Scorer(
            package.DNSMOS(str(models / "sig_bak_ovr.onnx"), str(models / "model_v8.onnx")),
            self.audio,
        )


def _package() -> Any:
    try:
        return import_module("speechmos.dnsmos")
    except ImportError as error:
        raise MissingPackageError(
            "DNSMOS needs the packages speechmos, onnxruntime and librosa",
            found=str(error),
            fix="Install them with: pip install speechmos onnxruntime librosa",
        ) from error


class _Scorer:
    def __init__(self, model: Any, audio: str) -> None:
        self._model, self._audio = model, audio

    def __call__(self, rows: pa.Table) -> pa.Table:
        values: dict[str, list[float | None]] = {name: [] for name in _COLUMNS}
        errors: list[str | None] = []
        for data in rows[self._audio]:
            scores: Mapping[str, float] = {}
            error = None if data.is_valid else "there is no audio"
            try:
                if data.is_valid:
                    samples, _ = decode(memoryview(data.as_buffer()), sample_rate_hz=_RATE_HZ)
                    # Resampling may overshoot full scale, which the package refuses.
                    scores = self._model(np.clip(samples, -1, 1), _RATE_HZ, False)
            except BadAudio as bad:
                error = f"{bad.refusal.reason}: {bad.refusal.detail}"
            for name, given in _COLUMNS.items():
                values[name].append(float(scores[given]) if scores else None)
            errors.append(error)
        columns = {name: pa.array(column, pa.float32()) for name, column in values.items()}
        return pa.table({**columns, "error": pa.array(errors, pa.string())})


DNSMOS: Final = DnsmosMeasures()
