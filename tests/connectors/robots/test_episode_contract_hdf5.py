"""The connectors of HDF5 formats keep the contract of episode connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from connectors.hdf5 import aloha, libero, robomimic
from datalake.testing.episode_connector_suite import EpisodeConnectorSuite
from tests.connectors.robots import demos


class TestRobomimic(EpisodeConnectorSuite):
    connector = robomimic.CONNECTOR

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {"ph/low_dim.hdf5": demos.robomimic(mask={"train": ["demo_0"]})}


class TestRobomimicFile(TestRobomimic):
    path = "ph/low_dim.hdf5"


class TestLibero(EpisodeConnectorSuite):
    connector = libero.CONNECTOR
    options: ClassVar = {"flip": "yes"}

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {
            "a_demo.hdf5": demos.libero(0),
            "b_demo.hdf5": demos.libero(1, states=45, instruction="open the drawer"),
        }


class TestAloha(EpisodeConnectorSuite):
    connector = aloha.CONNECTOR
    compressed = False

    @pytest.fixture
    def dataset(self) -> Mapping[str, bytes]:
        return {
            f"cube/episode_{number}.hdf5": demos.aloha(
                demos.aloha_arrays(number), compressed=self.compressed
            )
            for number in (0, 2, 10)
        }


class TestAlohaCompressed(TestAloha):
    compressed = True


class TestAlohaFile(TestAloha):
    path = "cube/episode_2.hdf5"
