"""Manifests in every format and with every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import connectors
from connectors.speech.manifest import CONNECTOR
from datalake.connector import Corpus
from datalake.errors import ConfigError, InputError, LakeError, SchemaError
from datalake.testing.connector_suite import lay_down
from datalake.uri import locate
from tests.connectors import minicorpora

TABLE = [
    {"path": "a.wav", "label": "real", "speaker": "ann"},
    {"path": "sub/b.wav", "label": "spoof", "speaker": None},
]


def rows(corpus: Corpus) -> list[dict[str, Any]]:
    return [row for batch in corpus.rows() for row in batch.to_pylist()]


def opened(tmp_path: Path, text: str | bytes, name: str = "list.csv", **options: str) -> Corpus:
    """Write one manifest and open it; `a__b` in an option's name stands for `a.b`."""
    data = text.encode() if isinstance(text, str) else text
    (tmp_path / name).write_bytes(data)
    given_options = {key.replace("__", "."): value for key, value in options.items()}
    return CONNECTOR.open(locate(tmp_path / name), given_options)


def delimited(delimiter: str, end: str = "\n") -> str:
    lines = [["path", "label", "speaker"], ["a.wav", "real", "ann"], ["sub/b.wav", "spoof", ""]]
    return "".join(delimiter.join(line) + end for line in lines)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", delimited(",")),
        ("m.csv", delimited(";")),
        ("m.csv", delimited("|")),
        ("m.CSV", delimited(",", "\r\n")),
        ("m.tsv", delimited("\t")),
        ("m.csv", b"\xef\xbb\xbf" + delimited(",").encode()),
        ("m.csv", delimited(",").encode("utf-16")),
        ("m.csv", "path,label,speaker\n\n" + delimited(",").partition("\n")[2]),
        ("m.jsonl", "\n".join(json.dumps(row) for row in TABLE)),
        ("m.ndjson", "\n\n".join(json.dumps(row) for row in TABLE) + "\n"),
        ("m.parquet", None),
    ],
)
def test_formats_that_say_the_same(tmp_path: Path, name: str, text: str | bytes | None) -> None:
    if text is None:
        target = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(TABLE), target)
        text = target.getvalue().to_pybytes()
    found = rows(opened(tmp_path, text, name))
    assert [(row["file_id"], row["path"], row["label"], row["speaker_id"]) for row in found] == [
        ("a", "a.wav", "bonafide", "ann"),
        ("sub/b", "sub/b.wav", "spoof", None),
    ]
    assert {row["source"] for row in found} == {tmp_path.name}
    assert not any(row["refused"] for row in found)


def test_columns_by_option(tmp_path: Path) -> None:
    corpus = opened(
        tmp_path,
        "wav,is_spoof,who,path\nx.wav,1,ann,left\ny.wav,0,bob,right\n",
        column__path="wav",
        column__label="is_spoof",
        column__speaker_id="who",
        label__spoof="1",
        label__bonafide="0",
        set__source="lab",
        set__generator="vits",
        set__language="en",
    )
    assert [tuple(row.values())[:7] for row in rows(corpus)] == [
        ("x", "x.wav", "lab", "vits", "spoof", "ann", "en"),
        ("y", "y.wav", "lab", None, "bonafide", "bob", "en"),
    ]
    assert [row["protocol_path"] for row in rows(corpus)] == ["left", "right"]


@pytest.mark.parametrize(
    "header",
    [
        "path,target,spk,attack,dataset",
        "File Name,Label,Speaker,Vocoder,Corpus",
        "wav,key,speaker_id,system_id,database",
        "audio_path,class,client_id,model,source",
        "filepath,label,speaker,generator,corpus",
    ],
)
def test_usual_names(tmp_path: Path, header: str) -> None:
    corpus = opened(tmp_path, f"{header}\nx.wav,fake,ann,vits,lab\n")
    (row,) = rows(corpus)
    assert tuple(row.values())[:6] == ("x", "x.wav", "lab", "vits", "spoof", "ann")
    assert corpus.extra == ()


def test_an_id_of_its_own_and_what_is_left_over(tmp_path: Path) -> None:
    corpus = opened(tmp_path, "id,path,Sample Rate,codec,duration_s\nutt-7,x.wav,16000,mp3,\n")
    (row,) = rows(corpus)
    assert row["file_id"] == "utt-7"
    assert [field.name for field in corpus.extra] == [
        "Sample_Rate",
        "protocol_codec",
        "protocol_duration_s",
    ]
    assert (row["Sample_Rate"], row["protocol_codec"], row["protocol_duration_s"]) == (
        "16000",
        "mp3",
        None,
    )


def test_faults_of_single_rows_name_their_line(tmp_path: Path) -> None:
    text = (
        "path,label,note\n"
        'a.wav,real,"two\nlines"\n'
        "b.wav,real\n"
        ",real,no path\n"
        "c.wav,perhaps,\n"
        "../outside.wav,real,\n"
        "d.wav,real,fine\n"
    )
    found = rows(opened(tmp_path, text))
    assert [(row["origin"], row["refused"]) for row in found] == [
        ("list.csv:2", None),
        ("list.csv:4", "bad_row"),
        ("list.csv:5", "bad_row"),
        ("list.csv:6", "bad_label"),
        ("list.csv:7", "bad_row"),
        ("list.csv:8", None),
    ]
    assert found[0]["note"] == "two\nlines"
    assert found[1]["refused_detail"] == "line 4: 2 fields under a header of 3"
    assert found[3]["path"] == "c.wav"
    assert "root" in found[4]["refused_detail"]


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    found = rows(opened(tmp_path, b"path,speaker\na.wav,Ren\xe9\nb.wav,Ann\n"))
    assert [(row["origin"], row["refused"]) for row in found] == [
        ("list.csv:2", "bad_row"),
        ("list.csv:3", None),
    ]


def test_a_quote_that_never_ends_does_not_end_the_reading(tmp_path: Path) -> None:
    text = 'path,note\na.wav,"' + "x\n" * 100_000
    found = rows(opened(tmp_path, text))
    assert found[0]["refused"] == "bad_row"
    assert "field larger" in found[0]["refused_detail"]


def test_lines_that_are_no_json_object(tmp_path: Path) -> None:
    text = '{"path": "a.wav", "meta": {"x": [1, null]}}\n{"path": \n[1]\n{"label": "real"}\n'
    found = rows(opened(tmp_path, text, "m.jsonl"))
    assert [(row["origin"], row["refused"]) for row in found] == [
        ("m.jsonl:1", None),
        ("m.jsonl:2", "bad_row"),
        ("m.jsonl:3", "bad_row"),
        ("m.jsonl:4", "bad_row"),
    ]
    assert json.loads(found[0]["meta"]) == {"x": [1, None]}


@pytest.mark.parametrize("values", [("0", "1"), ("1", "1"), ("True", "False")])
def test_numbers_are_no_labels_until_an_option_says_so(
    tmp_path: Path, values: tuple[str, str]
) -> None:
    text = f"path,label\na.wav,{values[0]}\nb.wav,{values[1]}\n"
    with pytest.raises(InputError, match=r"--option label\.bonafide=1"):
        opened(tmp_path, text)
    corpus = opened(tmp_path, text, label__spoof="0,true", label__bonafide="1,false")
    expected = {"0": "spoof", "1": "bonafide", "True": "spoof", "False": "bonafide"}
    assert [row["label"] for row in rows(corpus)] == [expected[value] for value in values]


def test_paths_elsewhere_share_a_root(tmp_path: Path) -> None:
    audio = tmp_path / "audio"
    text = f"path\n{audio}/x/a.wav\n{audio}/y/b.wav\n{audio}/y/../y/c.wav\n"
    corpus = opened(tmp_path, text)
    assert corpus.root.uri == str(tmp_path)
    (tmp_path / "lists").mkdir()
    corpus = opened(tmp_path / "lists", text)
    assert corpus.root.uri == str(audio)
    assert [row["path"] for row in rows(corpus)] == ["x/a.wav", "y/b.wav", "y/c.wav"]
    assert {row["source"] for row in rows(corpus)} == {"lists"}


def test_paths_above_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    corpus = opened(tmp_path / "lists", "path\n../x/a.wav\n../y/b.wav\n")
    assert [row["path"] for row in rows(corpus)] == ["x/a.wav", "y/b.wav"]
    assert corpus.root.uri == str(tmp_path)
    corpus = opened(tmp_path / "lists", "path\n../audio/a.wav\n../audio/b.wav\n")
    assert corpus.root.uri == str(tmp_path / "audio")
    assert [row["path"] for row in rows(corpus)] == ["a.wav", "b.wav"]


def test_uris(tmp_path: Path) -> None:
    corpus = opened(tmp_path, "path\ns3://speech/x/a.wav\ns3://speech/x/b/c.wav\n")
    assert corpus.root.uri == "s3://speech/x"
    assert [row["path"] for row in rows(corpus)] == ["a.wav", "b/c.wav"]
    with pytest.raises(InputError, match="no folder in common"):
        opened(tmp_path, "path\ns3://speech/x/a.wav\ns3://other/x/b.wav\n")


def test_a_root_by_option(tmp_path: Path) -> None:
    corpus = opened(tmp_path, "path\nx\\a.wav\n", root=str(tmp_path / "audio"))
    assert corpus.root.uri == str(tmp_path / "audio")
    assert [row["path"] for row in rows(corpus)] == ["x/a.wav"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("recording,label\na.wav,real\n", {}, r"recording, label.*--option column\.path=NAME"),
        ("path,label\n", {"column__label": "lable"}, r"Did you mean label.*column\.label"),
        ("", {}, "empty"),
        ("path,path\n", {}, "share a name"),
    ],
)
def test_columns_that_are_missing(
    tmp_path: Path, text: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        opened(tmp_path, text, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colum__path": "x"}, r"column\.<name>"),
        ({"column__speaker": "x"}, "speaker_id"),
        ({"set__path": "x"}, "names nothing"),
        ({"label__fake": "x"}, "bonafide, spoof"),
        ({"label__spoof": "1", "label__bonafide": "0,1"}, "both labels"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        opened(tmp_path, "path\na.wav\n", **options)


def test_what_only_calls_itself_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Parquet"):
        opened(tmp_path, "path\n", "m.parquet")


class TestFolders:
    def test_one_manifest_claims_every_file_and_the_file_itself_does_not(
        self, tmp_path: Path
    ) -> None:
        lay_down(minicorpora.manifest(), locate(tmp_path))
        whole = CONNECTOR.open(locate(tmp_path), {})
        alone = CONNECTOR.open(locate(tmp_path / "manifest.csv"), {})
        assert whole.claims_every_file
        assert not alone.claims_every_file
        assert rows(whole) == rows(alone)
        assert whole.source == alone.source == tmp_path.name

    def test_two_manifests_are_refused_by_name(self, tmp_path: Path) -> None:
        for name in ("train.csv", "test.csv"):
            (tmp_path / name).write_text("path,label\na.wav,real\n")
        with pytest.raises(InputError, match=r"test\.csv, train\.csv"):
            CONNECTOR.open(locate(tmp_path), {})
        assert "several" in connectors.detect(tmp_path)[0].found[0]
        train = CONNECTOR.open(locate(tmp_path / "train.csv"), {})
        test = CONNECTOR.open(locate(tmp_path / "test.csv"), {})
        assert train.source != test.source

    def test_a_table_of_something_else_is_no_manifest(self, tmp_path: Path) -> None:
        lay_down(minicorpora.manifest(), locate(tmp_path))
        (tmp_path / "speakers.csv").write_text("name,age\nann,33\n")
        (tmp_path / "broken.parquet").write_text("x")
        assert CONNECTOR.detect(locate(tmp_path)) is not None
        assert len(rows(CONNECTOR.open(locate(tmp_path), {}))) == 6


@pytest.mark.shared
def test_the_manifest_of_real_speech(shared_dir: Path) -> None:
    root = shared_dir / "data" / "speech"
    assert connectors.detect(root)[0].connector == "manifest"
    corpus = CONNECTOR.open(locate(root), {})
    found = rows(corpus)
    assert len(found) == 378
    assert not any(row["refused"] for row in found)
    assert [row["label"] for row in found].count("bonafide") == 133
    assert len({(row["source"], row["generator"]) for row in found if row["generator"]}) == 24
    assert {row["path"] for row in found} == {
        path for batch in corpus.files() for path in batch.column("path").to_pylist()
    }


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300), name=st.sampled_from(["m.csv", "m.tsv", "m.jsonl", "m.parquet"])
)
def test_any_bytes_raise_nothing_but_our_errors(tmp_path: Path, data: bytes, name: str) -> None:
    for start in (b"", b"path,label\n", b'{"path": "a.wav"}\n'):
        try:
            for row in rows(opened(tmp_path, start + data, name)):
                assert row["refused"] or row["path"]
        except LakeError:
            pass
