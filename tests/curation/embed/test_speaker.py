"""The speaker encoder, where its package is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from curation.embed.speaker import Speaker
from datalake.errors import MissingPackageError
from tests.curation.embed.rows import as_files, audio_rows, check_promises, clips, vectors

_INSTALLED = importlib.util.find_spec("resemblyzer") is not None


@pytest.mark.skipif(_INSTALLED, reason="resemblyzer is installed")
def test_it_says_what_it_lacks() -> None:
    with pytest.raises(MissingPackageError, match="pip install --no-deps resemblyzer"):
        Speaker()


@pytest.mark.skipif(not _INSTALLED, reason="needs resemblyzer")
@pytest.mark.filterwarnings("ignore")
def test_a_voice_is_nearer_to_itself() -> None:
    one, other = clips(4.0, 4.0)
    files = [*as_files([one[:32_000], one[32_000:], other, np.zeros(16_000)]), b"no audio"]
    made = check_promises(Speaker(device="cpu"), audio_rows(files))
    found = vectors(made)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2]
    assert [str(e).partition(":")[0] for e in made["error"].to_pylist()[3:]] == [
        "no speech", "not_audio",
    ]  # fmt: skip
