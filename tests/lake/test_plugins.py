"""Plug-ins: real entry points of packages that the test installs beside ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from datalake import detection, plugins
from datalake.connector import Connector
from datalake.errors import ConfigError, LakeError, MissingPackageError, NotFoundError

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package: entry points by group, and the source of one module."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, source: str, **groups: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        points = "".join(f"[datalake.{group}]\n{line}\n" for group, line in groups.items())
        (info / "entry_points.txt").write_text(points)
        monkeypatch.delitem(sys.modules, package, raising=False)

    return install


def test_an_installed_package_brings_a_plug_in(install: Install) -> None:
    install("theirs", "THING = 42", odds="thing = theirs:THING")
    assert plugins.names("datalake.odds") == ["thing"]
    assert plugins.load("datalake.odds", "thing") == 42


def test_names_import_nothing(install: Install) -> None:
    install("theirs", "raise SystemError", odds="thing = theirs:THING")
    assert plugins.names("datalake.odds") == ["thing"]


def test_an_unknown_name_offers_the_nearest(install: Install) -> None:
    install("theirs", "THING = 42", odds="thing = theirs:THING")
    with pytest.raises(NotFoundError, match=r"'thinj'.*Did you mean thing\?"):
        plugins.load("datalake.odds", "thinj")
    with pytest.raises(NotFoundError, match="There is none yet"):
        plugins.load("datalake.nothing", "thing")


def test_two_packages_of_one_name(install: Install) -> None:
    install("theirs", "THING = 1", odds="thing = theirs:THING")
    install("others", "THING = 2", odds="thing = others:THING")
    with pytest.raises(ConfigError, match="others:THING and theirs:THING"):
        plugins.load("datalake.odds", "thing")


@pytest.mark.parametrize("source", ["import not_there_at_all", "", "def ("])
def test_a_plug_in_that_cannot_be_loaded(install: Install, source: str) -> None:
    install("theirs", source, odds="thing = theirs:THING")
    with pytest.raises(LakeError, match=r"thing cannot be loaded.*theirs:THING"):
        plugins.load("datalake.odds", "thing")


def test_a_plug_in_may_say_itself_what_it_lacks(install: Install) -> None:
    source = (
        "from datalake.errors import MissingPackageError\n"
        "raise MissingPackageError.of('x', 'y', 'This')"
    )
    install("theirs", source, odds="thing = theirs:THING")
    with pytest.raises(MissingPackageError, match="This needs"):
        plugins.load("datalake.odds", "thing")


CONNECTOR = """
from datalake.connector import Evidence

class Theirs:
    name = "theirs"
    options = ()

    def __init__(self, confidence):
        self.confidence = confidence

    def detect(self, root):
        return Evidence("theirs", self.confidence, ("a mark",)) if self.confidence else None

    def open(self, root, options):
        raise NotImplementedError
"""


def test_detection_asks_every_connector(install: Install, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, confidence in (("low", 0.3), ("high", 0.99), ("none", 0)):
        install(
            name,
            f"{CONNECTOR}\nCONNECTOR = Theirs({confidence})",
            connectors=f"{name} = {name}:CONNECTOR",
        )
    found = detection.detect(corpus)
    assert [evidence.confidence for evidence in found] == [0.99, 0.3]
    assert found[0].found == ("a mark",)


def test_a_broken_connector_stops_nobody(install: Install, tmp_path: Path) -> None:
    install("broken", "import not_there_at_all", connectors="broken = broken:CONNECTOR")
    with pytest.warns(UserWarning, match="goes on without broken"):
        detection.detect(tmp_path)
    with pytest.raises(LakeError, match="not_there_at_all"):
        detection.connector("broken")


def test_what_is_no_connector(install: Install, tmp_path: Path) -> None:
    install("wrong", "CONNECTOR = 42", connectors="wrong = wrong:CONNECTOR")
    with pytest.raises(ConfigError, match=r"is no connector.*int"):
        detection.connector("wrong")


def test_nothing_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        detection.detect(tmp_path / "nowhere")


@pytest.mark.parametrize("name", plugins.names(detection.CONNECTORS))
def test_the_connectors_that_come_with_the_package(name: str) -> None:
    connector = detection.connector(name)
    assert isinstance(connector, Connector)
    assert connector.name == name
