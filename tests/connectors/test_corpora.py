"""Each corpus row by row, and each from wherever a user may point."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import connectors
from connectors.speech import (
    asvspoof5,
    asvspoof2019,
    asvspoof2021,
    fake_or_real,
    in_the_wild,
    mlaad,
)
from connectors.speech import audio_folder as folders
from datalake import plugins
from datalake.connector import Corpus
from datalake.errors import ConfigError, InputError, NotFoundError
from datalake.testing.connector_suite import lay_down
from datalake.uri import locate
from tests.connectors import minicorpora

KEY_COLUMNS = ("file_id", "generator", "label", "speaker_id", "language", "split")


def laid(tmp_path: Path, files: Mapping[str, bytes]) -> Path:
    root = tmp_path / "corpus"
    lay_down(files, locate(root))
    return root


def rows(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.rows() for row in batch.to_pylist()]


def good(corpus: Corpus, *columns: str) -> list[tuple[str | None, ...]]:
    names = columns or KEY_COLUMNS
    return [tuple(row[name] for name in names) for row in rows(corpus) if row["refused"] is None]


def refused(corpus: Corpus) -> list[tuple[str, str]]:
    return [(row["origin"], row["refused"]) for row in rows(corpus) if row["refused"] is not None]


def paths(corpus: Corpus) -> set[str]:
    return {path for batch in corpus.files() for path in batch.column("path").to_pylist()}


@pytest.mark.parametrize("name", minicorpora.CORPORA)
def test_detect_names_the_right_connector_first(name: str, tmp_path: Path) -> None:
    root = laid(tmp_path, minicorpora.CORPORA[name]())
    found = connectors.detect(root)
    assert found[0].connector == name
    assert all(first.confidence > second.confidence for first, second in itertools.pairwise(found))


def test_detect_finds_nothing_in_an_empty_folder(tmp_path: Path) -> None:
    assert connectors.detect(tmp_path) == []


def test_every_connector_is_registered() -> None:
    names = plugins.names("datalake.connectors")
    assert set(minicorpora.CORPORA) <= set(names)
    for name in minicorpora.CORPORA:
        assert plugins.load("datalake.connectors", name).name == name  # type: ignore[attr-defined]


class TestASVspoof2019:
    def test_rows_of_la(self, tmp_path: Path) -> None:
        corpus = asvspoof2019.CONNECTOR.open(
            locate(laid(tmp_path, minicorpora.asvspoof2019_la())), {}
        )
        assert good(corpus) == [
            ("LA_T_1138215", None, "bonafide", "LA_0079", "en", "train"),
            ("LA_T_1271820", "A01", "spoof", "LA_0079", "en", "train"),
            ("LA_D_1047731", None, "bonafide", "LA_0069", "en", "dev"),
            ("LA_D_1105538", "A02", "spoof", "LA_0069", "en", "dev"),
            ("LA_E_2834763", "A11", "spoof", "LA_0039", "en", "eval"),
            ("LA_E_9999999", None, "bonafide", "LA_0040", "en", "eval"),
        ]
        protocol = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm.train.trn.txt"
        assert refused(corpus) == [(f"{protocol}:3", "bad_row")]
        assert corpus.source == "asvspoof2019_la"

    def test_enrolment_recordings_are_no_fault(self, tmp_path: Path) -> None:
        corpus = asvspoof2019.CONNECTOR.open(
            locate(laid(tmp_path, minicorpora.asvspoof2019_la())), {}
        )
        assert "LA/ASVspoof2019_LA_dev/flac/LA_D_7622198.flac" in paths(corpus)
        assert not corpus.claims_every_file

    def test_pa_has_environments_and_only_what_was_downloaded(self, tmp_path: Path) -> None:
        corpus = asvspoof2019.CONNECTOR.open(
            locate(laid(tmp_path, minicorpora.asvspoof2019_pa())), {}
        )
        assert good(corpus, "file_id", "generator", "label", "split", "environment") == [
            ("PA_T_0000001", None, "bonafide", "train", "aaa"),
            ("PA_T_0005401", "AA", "spoof", "train", "aab"),
        ]

    def test_both_partitions_or_one(self, tmp_path: Path) -> None:
        root = locate(
            laid(tmp_path, {**minicorpora.asvspoof2019_la(), **minicorpora.asvspoof2019_pa()})
        )
        both = asvspoof2019.CONNECTOR.open(root, {})
        assert both.source == "asvspoof2019"
        assert {row["source"] for row in rows(both)} == {"asvspoof2019_la", "asvspoof2019_pa"}
        one = asvspoof2019.CONNECTOR.open(root, {"partition": "pa"})
        assert one.source == "asvspoof2019_pa"
        assert len(rows(one)) == 2
        with pytest.raises(ConfigError, match="LA, PA"):
            asvspoof2019.CONNECTOR.open(root, {"partition": "DF"})

    @pytest.mark.parametrize("place", ["LA", "LA/ASVspoof2019_LA_train"])
    def test_from_another_place_ids_stay(self, tmp_path: Path, place: str) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2019_la())
        outer = asvspoof2019.CONNECTOR.open(locate(root), {})
        inner = asvspoof2019.CONNECTOR.open(locate(root / place), {})
        assert good(inner) == good(outer)
        assert paths(inner) == {path.removeprefix("LA/") for path in paths(outer)}

    def test_protocols_without_audio(self, tmp_path: Path) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2019_la())
        for split in ("train", "dev", "eval"):
            shutil.rmtree(root / f"LA/ASVspoof2019_LA_{split}")
        with pytest.raises(InputError, match="no audio"):
            asvspoof2019.CONNECTOR.open(locate(root), {})


class TestASVspoof2021:
    def test_rows_of_both(self, tmp_path: Path) -> None:
        corpus = asvspoof2021.CONNECTOR.open(locate(laid(tmp_path, minicorpora.asvspoof2021())), {})
        names = ("file_id", "source", "generator", "label", "language", "subset")
        assert good(corpus, *names, "protocol_codec") == [
            ("DF_E_2000011", "asvspoof2021_df", "A14", "spoof", "en", "progress", "nocodec"),
            ("DF_E_2000013", "asvspoof2021_df", None, "bonafide", "en", "eval", "low_mp3"),
            ("DF_E_2000024", "asvspoof2021_df", "Task2-team12", "spoof", None, "eval", "high_ogg"),
            ("LA_E_9332881", "asvspoof2021_la", "A07", "spoof", "en", "eval", "alaw"),
            ("LA_E_6866159", "asvspoof2021_la", None, "bonafide", "en", "hidden", "none"),
        ]
        assert refused(corpus) == [("keys/DF/CM/trial_metadata.txt:4", "bad_row")]
        df = rows(corpus)[2]
        assert (df["vocoder_class"], df["team"], df["protocol_language"], df["transmission"]) == (
            "neural_vocoder_autoregressive",
            "team12",
            "Finnish",
            None,
        )

    def test_without_keys_it_is_blind(self, tmp_path: Path) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2021())
        shutil.rmtree(root / "keys")
        corpus = asvspoof2021.CONNECTOR.open(locate(root), {"partition": "LA"})
        assert good(corpus) == [
            ("LA_E_6866159", None, None, None, "en", "eval"),
            ("LA_E_9332881", None, None, None, "en", "eval"),
        ]
        assert "without keys" in connectors.detect(root)[0].found[0]

    @pytest.mark.parametrize("keys", ["", "keys", "keys/LA/CM", "keys/LA/CM/trial_metadata.txt"])
    def test_keys_from_elsewhere(self, tmp_path: Path, keys: str) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2021())
        (root / "keys").rename(tmp_path / "keys")
        place = str(tmp_path / keys)
        corpus = asvspoof2021.CONNECTOR.open(locate(root), {"partition": "LA", "keys": place})
        assert [row["label"] for row in rows(corpus)] == ["spoof", "bonafide"]

    def test_keys_that_are_not_there(self, tmp_path: Path) -> None:
        root = locate(laid(tmp_path, minicorpora.asvspoof2021()))
        with pytest.raises(NotFoundError, match="trial_metadata"):
            asvspoof2021.CONNECTOR.open(root, {"keys": "elsewhere"})

    def test_keys_of_the_other_set_are_not_taken(self, tmp_path: Path) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2021())
        shutil.rmtree(root / "keys/LA")
        (root / "keys/DF").rename(root / "keys/CM_only")
        (root / "keys/CM_only/CM").rename(root / "keys/CM")
        corpus = asvspoof2021.CONNECTOR.open(locate(root), {})
        assert [row["source"] for row in rows(corpus) if row["label"]] == ["asvspoof2021_df"] * 3

    def test_the_evaluation_folder_itself(self, tmp_path: Path) -> None:
        root = laid(tmp_path, minicorpora.asvspoof2021())
        corpus = asvspoof2021.CONNECTOR.open(locate(root / "ASVspoof2021_LA_eval"), {})
        assert [row["file_id"] for row in rows(corpus)] == ["LA_E_9332881", "LA_E_6866159"]
        assert corpus.source == "asvspoof2021_la"


class TestASVspoof5:
    def test_the_first_line_is_a_row(self, tmp_path: Path) -> None:
        corpus = asvspoof5.CONNECTOR.open(locate(laid(tmp_path, minicorpora.asvspoof5())), {})
        assert good(corpus) == [
            ("T_0000000000", "A05", "spoof", "T_4850", "en", "train"),
            ("T_0000000027", None, "bonafide", "T_0152", "en", "train"),
            ("D_0000000001", "A11", "spoof", "D_0062", "en", "dev"),
        ]
        assert good(corpus, "gender", "attack_condition", "protocol_codec")[0] == ("F", "AC3", None)

    def test_codecs_of_the_eval_split(self, tmp_path: Path) -> None:
        files = {**minicorpora.asvspoof5(), **minicorpora.flac("flac_E_eval", "E_0009538969")}
        corpus = asvspoof5.CONNECTOR.open(locate(laid(tmp_path, files)), {})
        names = ("file_id", "split", "protocol_codec", "codec_q", "codec_seed")
        assert good(corpus, *names)[-1] == ("E_0009538969", "eval", "C05", "5", "E_0005178030")

    def test_six_columns(self, tmp_path: Path) -> None:
        corpus = asvspoof5.CONNECTOR.open(locate(laid(tmp_path, minicorpora.asvspoof5_old())), {})
        names = ("file_id", "generator", "label", "gender", "attack_condition")
        assert good(corpus, *names) == [
            ("T_0000000000", "A05", "spoof", "F", "AC3"),
            ("T_0000000027", None, "bonafide", "M", "AC1"),
        ]

    def test_the_newer_protocol_wins(self, tmp_path: Path) -> None:
        both = {**minicorpora.asvspoof5_old(), **minicorpora.asvspoof5()}
        corpus = asvspoof5.CONNECTOR.open(locate(laid(tmp_path, both)), {})
        origins = [row["origin"] for row in rows(corpus) if row["split"] == "train"]
        assert origins == ["ASVspoof5.train.tsv:1", "ASVspoof5.train.tsv:2"]

    @pytest.mark.parametrize("place", ["..", "flac_T"])
    def test_from_above_and_from_within(self, tmp_path: Path, place: str) -> None:
        root = laid(tmp_path, minicorpora.asvspoof5())
        corpus = asvspoof5.CONNECTOR.open(locate((root / place).resolve()), {})
        assert corpus.root.uri == str(root)
        assert len(rows(corpus)) == 3


def test_in_the_wild(tmp_path: Path) -> None:
    root = laid(tmp_path, minicorpora.in_the_wild())
    for place in (root, root / "release_in_the_wild"):
        corpus = in_the_wild.CONNECTOR.open(locate(place), {})
        assert good(corpus) == [
            ("0", "unknown", "spoof", "Alec Guinness", "en", None),
            ("1", None, "bonafide", "King, Jr.", "en", None),
        ]
        assert refused(corpus) == [("meta.csv:4", "bad_label")]
        assert paths(corpus) == {"0.wav", "1.wav", "2.wav", "3.wav"}
        assert corpus.claims_every_file


def test_mlaad(tmp_path: Path) -> None:
    root = laid(tmp_path, minicorpora.mlaad())
    for place in (tmp_path, root, root / "fake"):
        corpus = mlaad.CONNECTOR.open(locate(place), {})
        german = "fake/de/tts_models_de_thorsten_vits"
        assert good(corpus, "file_id", "generator", "label", "language", "reference_speaker") == [
            (f"{german}/book_000001", "tts_models/de/thorsten/vits", "spoof", "de", None),
            ("fake/en/xtts_v2/book_000001", "xtts_v2", "spoof", "en", "angus"),
        ]
        assert rows(corpus)[0]["transcript"] == 'Er sagte: "Ja'
        assert refused(corpus) == [(f"{german}/meta.csv:3", "bad_row")]


def test_wavefake_keeps_equal_ids_apart(tmp_path: Path) -> None:
    from connectors.speech import wavefake

    root = laid(tmp_path, minicorpora.wavefake())
    whole = wavefake.CONNECTOR.open(locate(root), {})
    voices = "common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech"
    assert good(whole) == [
        (f"{voices}/gen_0", voices, "spoof", None, "en", None),
        (
            "jsut_parallel_wavegan/BASIC5000_0001_gen",
            "jsut_parallel_wavegan",
            "spoof",
            "jsut",
            "ja",
            None,
        ),
        ("ljspeech_hifiGAN/LJ001-0001_gen", "ljspeech_hifiGAN", "spoof", "ljspeech", "en", None),
        ("ljspeech_melgan/LJ001-0001_gen", "ljspeech_melgan", "spoof", "ljspeech", "en", None),
        ("ljspeech_melgan/LJ001-0002_gen", "ljspeech_melgan", "spoof", "ljspeech", "en", None),
    ]
    inner = wavefake.CONNECTOR.open(locate(root / "generated_audio"), {})
    assert good(inner) == good(whole)


class TestFakeOrReal:
    def test_rows(self, tmp_path: Path) -> None:
        corpus = fake_or_real.CONNECTOR.open(locate(laid(tmp_path, minicorpora.fake_or_real())), {})
        long = "file1.wav_16k.wav_norm"
        assert good(corpus, "file_id", "generator", "label", "split", "variant") == [
            ("for-2seconds/testing/real/file1", None, "bonafide", "eval", "for-2seconds"),
            ("for-2seconds/testing/fake/file9", "unknown", "spoof", "eval", "for-2seconds"),
            (f"for-norm/training/real/{long}", None, "bonafide", "train", "for-norm"),
            (f"for-norm/training/fake/{long}", "unknown", "spoof", "train", "for-norm"),
            ("for-norm/training/fake/file2", "unknown", "spoof", "train", "for-norm"),
            (f"for-norm/validation/fake/{long}", "unknown", "spoof", "dev", "for-norm"),
        ]

    @pytest.mark.parametrize("place", ["for-norm", "for-2seconds"])
    def test_one_version_keeps_its_ids(self, tmp_path: Path, place: str) -> None:
        root = laid(tmp_path, minicorpora.fake_or_real())
        whole = fake_or_real.CONNECTOR.open(locate(root), {})
        one = fake_or_real.CONNECTOR.open(locate(root / place), {})
        assert good(one) == [row for row in good(whole) if str(row[0]).startswith(place)]


class TestAudioFolder:
    def test_labels_from_folders(self, tmp_path: Path) -> None:
        corpus = folders.CONNECTOR.open(locate(laid(tmp_path, minicorpora.audio_folder())), {})
        assert good(corpus, "file_id", "label", "generator") == [
            ("Spoof/3", "spoof", "unknown"),
            ("fake/hifi-gan/1", "spoof", "hifi-gan"),
            ("fake/hifi-gan/deep/1", "spoof", "hifi-gan"),
            ("real/ann/1", "bonafide", None),
            ("real/ann/2", "bonafide", None),
            ("unknown/4", None, None),
        ]
        assert [row["path"] for row in rows(corpus) if row["refused"]] == ["fake/real/5.wav"]

    def test_a_template(self, tmp_path: Path) -> None:
        files = minicorpora.wav("spoof/vits/ann/room1", "a") | minicorpora.wav("odd", "b")
        corpus = folders.CONNECTOR.open(
            locate(laid(tmp_path, files)),
            {"pattern": "{label}/{generator}/{speaker_id}/{room}/{name}", "set.language": "de"},
        )
        assert good(corpus, *KEY_COLUMNS, "room") == [
            ("spoof/vits/ann/room1/a", "vits", "spoof", "ann", "de", None, "room1")
        ]
        (bad,) = (row for row in rows(corpus) if row["refused"])
        assert (bad["path"], bad["refused"]) == ("odd/b.wav", "bad_row")

    def test_a_regular_expression(self, tmp_path: Path) -> None:
        files = minicorpora.wav("x", "LJ-01_real", "LJ-02_fake")
        pattern = r"x/(?P<speaker_id>[A-Z]+)-(?P<file_id>\d+)_(?P<label>\w+)"
        corpus = folders.CONNECTOR.open(locate(laid(tmp_path, files)), {"pattern": pattern})
        assert good(corpus) == [
            ("01", None, "bonafide", "LJ", None, None),
            ("02", "unknown", "spoof", "LJ", None, None),
        ]

    @pytest.mark.parametrize(
        "pattern", ["no names", "{label}/{label}", "(?P<label>[", "{source}/{0}"]
    )
    def test_patterns_that_cannot_be(self, tmp_path: Path, pattern: str) -> None:
        root = locate(laid(tmp_path, minicorpora.wav("x", "a")))
        with pytest.raises(ConfigError, match="pattern"):
            folders.CONNECTOR.open(root, {"pattern": pattern})

    def test_constants(self, tmp_path: Path) -> None:
        root = locate(laid(tmp_path, minicorpora.wav("x", "a")))
        options = {"set.label": "genuine", "set.source": "home", "set.split": "train"}
        corpus = folders.CONNECTOR.open(root, options)
        assert corpus.source == "home"
        assert good(corpus) == [("x/a", None, "bonafide", None, None, "train")]
        with pytest.raises(ConfigError, match="speaker_id"):
            folders.CONNECTOR.open(root, {"set.speaker": "ann"})
