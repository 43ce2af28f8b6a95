"""Tiny copies of each corpus: the layout to the letter, the traps, and real audio."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache

import numpy as np
import soundfile

Files = Mapping[str, bytes]


@cache
def audio(suffix: str) -> bytes:
    """A tenth of a second of noise."""
    rng = np.random.default_rng(1)
    target = io.BytesIO()
    soundfile.write(target, rng.uniform(-0.1, 0.1, 1600), 16_000, format=suffix.upper())
    return target.getvalue()


def flac(folder: str, *names: str) -> dict[str, bytes]:
    return {f"{folder}/{name}.flac": audio("flac") for name in names}


def wav(folder: str, *names: str) -> dict[str, bytes]:
    return {f"{folder}/{name}.wav": audio("wav") for name in names}


def lines(*text: str, end: str = "\n") -> bytes:
    return "".join(line + end for line in text).encode()


def asvspoof2019_la() -> Files:
    """Enrolment recordings beside the trials; a line that lost a field; a file that is missing."""
    protocols = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"
    return {
        f"{protocols}.train.trn.txt": lines(
            "LA_0079 LA_T_1138215 - - bonafide",
            "LA_0079 LA_T_1271820 - A01 spoof",
            "LA_0080 LA_T_1272637 A06 spoof",
        ),
        f"{protocols}.dev.trl.txt": lines(
            "LA_0069 LA_D_1047731 - - bonafide", "LA_0069 LA_D_1105538 - A02 spoof"
        ),
        f"{protocols}.eval.trl.txt": lines(
            "LA_0039 LA_E_2834763 - A11 spoof", "LA_0040 LA_E_9999999 - - bonafide"
        ),
        **flac("LA/ASVspoof2019_LA_train/flac", "LA_T_1138215", "LA_T_1271820", "LA_T_1272637"),
        **flac("LA/ASVspoof2019_LA_dev/flac", "LA_D_1047731", "LA_D_1105538", "LA_D_7622198"),
        **flac("LA/ASVspoof2019_LA_eval/flac", "LA_E_2834763"),
        "LA/ASVspoof2019_LA_asv_protocols/ASVspoof2019.LA.asv.dev.female.trn.txt": lines(
            "LA_0069 LA_D_7622198"
        ),
        "LA/README.LA.txt": b"ASVspoof 2019\n",
    }


def asvspoof2019_pa() -> Files:
    """Environments, replay attacks, and a split that was not downloaded."""
    protocols = "PA/ASVspoof2019_PA_cm_protocols/ASVspoof2019.PA.cm"
    return {
        f"{protocols}.train.trn.txt": lines(
            "PA_0079 PA_T_0000001 aaa - bonafide", "PA_0079 PA_T_0005401 aab AA spoof"
        ),
        f"{protocols}.dev.trl.txt": lines("PA_0069 PA_D_0000001 aaa - bonafide"),
        **flac("PA/ASVspoof2019_PA_train/flac", "PA_T_0000001", "PA_T_0005401"),
    }


def asvspoof2021() -> Files:
    """LA with keys of eight columns, DF with keys of thirteen."""
    return {
        "keys/LA/CM/trial_metadata.txt": lines(
            "LA_0009 LA_E_9332881 alaw ita_tx A07 spoof notrim eval",
            "LA_0020 LA_E_6866159 none - bonafide bonafide trim hidden",
        ),
        "keys/DF/CM/trial_metadata.txt": lines(
            "LA_0023 DF_E_2000011 nocodec asvspoof A14 spoof notrim progress"
            " traditional_vocoder - - - -",
            "TEF2 DF_E_2000013 low_mp3 vcc2020 - bonafide notrim eval bonafide - - - -",
            "VCC2 DF_E_2000024 high_ogg vcc2020 Task2-team12 spoof notrim eval"
            " neural_vocoder_autoregressive Task2 team12 FF Finnish",
            "LA_0023 DF_E_2000026 nocodec",
        ),
        "ASVspoof2021_LA_eval/ASVspoof2021.LA.cm.eval.trl.txt": lines(
            "LA_E_9332881", "LA_E_6866159"
        ),
        **flac("ASVspoof2021_LA_eval/flac", "LA_E_9332881", "LA_E_6866159"),
        **flac("ASVspoof2021_DF_eval/flac", "DF_E_2000011", "DF_E_2000013", "DF_E_2000024"),
    }


def asvspoof5() -> Files:
    """No header; ten columns; an eval split by its protocol alone."""
    return {
        "ASVspoof5.train.tsv": lines(
            "T_4850 T_0000000000 F - - - AC3 A05 spoof -",
            "T_0152 T_0000000027 M - - - AC1 bonafide bonafide -",
        ),
        "ASVspoof5.dev.track_1.tsv": lines("D_0062 D_0000000001 F - - - AC1 A11 spoof -"),
        "ASVspoof5.eval.track_1.tsv": lines(
            "E_1607 E_0009538969 M C05 5 E_0005178030 AC2 A20 spoof -"
        ),
        "ASVspoof5.dev.track_2.enroll.tsv": lines("D_0062 D_0000000009"),
        **flac("flac_T", "T_0000000000", "T_0000000027"),
        **flac("flac_D", "D_0000000001"),
    }


def asvspoof5_old() -> Files:
    """The release before: six columns, in a folder of protocols."""
    return {
        "ASVspoof5_protocols/ASVspoof5.train.metadata.txt": lines(
            "T_4850 T_0000000000 F AC3 A05 spoof", "T_0152 T_0000000027 M AC1 bonafide bonafide"
        ),
        **flac("flac_T", "T_0000000000", "T_0000000027"),
    }


def in_the_wild() -> Files:
    """Windows line ends, a speaker with a comma, a file without a row."""
    return {
        "release_in_the_wild/meta.csv": lines(
            "file,speaker,label",
            "0.wav,Alec Guinness,spoof",
            '1.wav,"King, Jr.",bona-fide',
            "2.wav,Ayn Rand,spoofed?",
            end="\r\n",
        ),
        **wav("release_in_the_wild", "0", "1", "2", "3"),
    }


def mlaad() -> Files:
    """Pipes, quotes that enclose nothing, a newer model with one more column, ids that repeat."""
    header = (
        "path|original_file|language|is_original_language|duration|training_data|model_name"
        "|architecture|transcript"
    )
    return {
        "fake/de/tts_models_de_thorsten_vits/meta.csv": lines(
            header,
            "./fake/de/tts_models_de_thorsten_vits/book_000001.wav|de_DE/book_000001.wav|de|True"
            '|1.5|thorsten|tts_models/de/thorsten/vits|vits|Er sagte: "Ja',
            "./fake/de/tts_models_de_thorsten_vits/book_000002.wav|de_DE/book_000002.wav|de|True"
            "|2.5|thorsten|tts_models/de/thorsten/vits|vits|Mit | Strich",
        ),
        "fake/en/xtts_v2/meta.csv": lines(
            header + "|reference_speaker",
            "fake/en/xtts_v2/book_000001.wav|en_US/book_000001.wav|en|False|2.25|coqui|xtts_v2|xtts"
            "|Yes.|angus",
        ),
        **wav("fake/de/tts_models_de_thorsten_vits", "book_000001", "book_000002"),
        **wav("fake/en/xtts_v2", "book_000001"),
        "README.md": b"MLAAD\n",
    }


def wavefake() -> Files:
    """The same ids in every folder; capital letters; hidden files of a Mac."""
    return {
        **wav("generated_audio/ljspeech_melgan", "LJ001-0001_gen", "LJ001-0002_gen"),
        **wav("generated_audio/ljspeech_hifiGAN", "LJ001-0001_gen"),
        **wav("generated_audio/jsut_parallel_wavegan", "BASIC5000_0001_gen"),
        **wav(
            "generated_audio/common_voices_prompts_from_conformer_fastspeech2_pwg_ljspeech", "gen_0"
        ),
        "generated_audio/ljspeech_melgan/._LJ001-0001_gen.wav": b"\0\5\x16\7",
        "__MACOSX/generated_audio/ljspeech_melgan/x.wav": b"\0\5\x16\7",
    }


def fake_or_real() -> Files:
    """A version nested in itself; a file of no bytes; the same names everywhere."""
    return {
        **wav("for-norm/for-norm/training/real", "file1.wav_16k.wav_norm"),
        **wav("for-norm/for-norm/training/fake", "file1.wav_16k.wav_norm", "file2"),
        **wav("for-norm/for-norm/validation/fake", "file1.wav_16k.wav_norm"),
        **wav("for-2seconds/testing/real", "file1"),
        "for-2seconds/testing/fake/file9.mp3": b"",
    }


def manifest() -> Files:
    """A byte order mark, quotes, a short row, a long row, an odd label, a file without a row."""
    return {
        "manifest.csv": b"\xef\xbb\xbf"
        + lines(
            "path,source,generator,label,speaker,corpus,codec",
            "real/a.wav,studio,,bona-fide,ann,vctk,",
            '"real/b, second.wav",studio,,genuine,"bob, jr",vctk,pcm',
            "fake/a.wav,studio,hifi-gan,FAKE,ann,vctk,pcm",
            "fake/short.wav,studio",
            "fake/long.wav,studio,g,spoof,ann,vctk,pcm,more",
            "fake/odd.wav,studio,g,maybe,ann,vctk,pcm",
        ),
        **wav("real", "a", "b, second"),
        **wav("fake", "a", "odd", "extra"),
    }


def audio_folder() -> Files:
    """Labels at two depths, a generator, a file without any label, one that contradicts itself."""
    return {
        **wav("real/ann", "1", "2"),
        **wav("fake/hifi-gan", "1"),
        **wav("fake/hifi-gan/deep", "1"),
        **flac("Spoof", "3"),
        **wav("unknown", "4"),
        **wav("fake/real", "5"),
        "notes.txt": b"nothing",
    }


CORPORA = {
    "asvspoof2019": asvspoof2019_la,
    "asvspoof2021": asvspoof2021,
    "asvspoof5": asvspoof5,
    "in_the_wild": in_the_wild,
    "mlaad": mlaad,
    "wavefake": wavefake,
    "fake_or_real": fake_or_real,
    "manifest": manifest,
    "audio_folder": audio_folder,
}
"""A corpus for each connector, by the connector's name."""
