"""All connectors pass the contract suite, on disk and in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from connectors.speech import (
    asvspoof5,
    asvspoof2019,
    asvspoof2021,
    audio_folder,
    fake_or_real,
    in_the_wild,
    manifest,
    mlaad,
    wavefake,
)
from datalake.testing.connector_suite import ConnectorSuite
from tests.connectors import minicorpora


class _Mini(ConnectorSuite):
    @pytest.fixture
    def corpus(self) -> Mapping[str, bytes]:
        return minicorpora.CORPORA[self.connector.name]()


class TestManifest(_Mini):
    connector = manifest.CONNECTOR


class TestAudioFolder(_Mini):
    connector = audio_folder.CONNECTOR


class TestAudioFolderWithPattern(TestAudioFolder):
    options: ClassVar = {"pattern": r"(?P<label>[^/]+)/(?P<room>[^/]+)/(?:.*/)?(?P<name>[^/]+)"}


class TestASVspoof2019(_Mini):
    connector = asvspoof2019.CONNECTOR


class TestASVspoof2019PA(TestASVspoof2019):
    @pytest.fixture
    def corpus(self) -> Mapping[str, bytes]:
        return minicorpora.asvspoof2019_pa()


class TestASVspoof2021(_Mini):
    connector = asvspoof2021.CONNECTOR


class TestASVspoof2021DF(TestASVspoof2021):
    options: ClassVar = {"partition": "df", "keys": "keys/DF"}


class TestASVspoof5(_Mini):
    connector = asvspoof5.CONNECTOR


class TestASVspoof5Old(TestASVspoof5):
    @pytest.fixture
    def corpus(self) -> Mapping[str, bytes]:
        return minicorpora.asvspoof5_old()


class TestInTheWild(_Mini):
    connector = in_the_wild.CONNECTOR


class TestMLAAD(_Mini):
    connector = mlaad.CONNECTOR


class TestWaveFake(_Mini):
    connector = wavefake.CONNECTOR


class TestFakeOrReal(_Mini):
    connector = fake_or_real.CONNECTOR
