"""Lance files made by hand: offsets of every width, which Lance writes for pages of every size."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.fragment import DataFile

from datalake.errors import StoreError
from datalake.tables import lance_file, open_table
from datalake.tables.lance import LanceTable
from datalake.tables.lance_mapped import LanceMapped

VALUES = [b"one", None, b"", b"three and more", b"x" * 150]
SCHEMA = pa.schema(
    [pa.field("v", pa.large_binary(), metadata={"lance-encoding:compression": "none"})]
)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def encoding(kind: bytes, message: bytes) -> bytes:
    """An `Encoding` that lies within its message."""
    return field(2, field(1, field(1, kind) + field(2, message)))


def made_file(values: list[bytes | None], width: int, num_rows: int | None = None) -> bytes:
    """A file with one column in one zipped page with offsets of this width."""
    zipped, offsets = b"", [0]
    for value in values:
        zipped += b"\1" if value is None else b"\0" + struct.pack("<Q", len(value)) + value
        offsets.append(len(zipped))
    zipped += bytes(-len(zipped) % 64)
    index = np.array(offsets).astype(f"<u{width}").tobytes()
    num_rows = len(values) if num_rows is None else num_rows
    plain = b"\x12\x06\x0a\x04\x0a\x02\x08\x40"
    layout = field(2, 1) + field(4, 64) + field(5, num_rows) + field(6, num_rows)
    layout = field(3, layout + field(7, plain) + field(8, b"\3"))
    page = field(1, varint(0) + varint(len(zipped)))
    page += field(2, varint(offsets[-1]) + varint(len(index))) + field(3, num_rows)
    page += field(4, encoding(b"/lance.encodings21.PageLayout", layout))
    column = field(1, encoding(b"/lance.encodings.ColumnEncoding", field(1, b"")))
    column += field(2, page)
    # The first global buffer describes the columns: name 2, id 3, parent 4, type 5, nullable 6.
    described = field(2, b"v") + field(4, (1 << 64) - 1) + field(5, b"large_binary") + field(6, 1)
    schema = field(1, field(1, described)) + field(2, num_rows)
    head = zipped + index
    head += bytes(-len(head) % 64)
    schema_at, columns_at = len(head), len(head) + len(schema)
    table_at = columns_at + len(column)
    places = struct.pack("<QQQQ", columns_at, len(column), schema_at, len(schema))
    footer = struct.pack("<QQQIIHH4s", columns_at, table_at, table_at + 16, 1, 1, 2, 2, b"LANC")
    return head + schema + column + places + footer


def table_of(place: Path, content: bytes) -> LanceTable:
    """A table whose one fragment is this file."""
    dataset = lance.write_dataset(SCHEMA.empty_table(), str(place), data_storage_version="2.2")
    (place / "data").mkdir(exist_ok=True)
    (place / "data" / "made.lance").write_bytes(content)
    file = DataFile("made.lance", [0], [0], 2, 2, len(content))
    fragment = lance.FragmentMetadata(0, [file], physical_rows=len(VALUES))
    append = lance.LanceOperation.Append([fragment])
    lance.LanceDataset.commit(dataset, append, read_version=dataset.version)
    table = open_table(place)
    assert isinstance(table, LanceTable)
    return table


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_offsets_of_every_width(tmp_path: Path, width: int) -> None:
    table = table_of(tmp_path / "t.lance", made_file(VALUES, width))
    mapped = table.mapped("v")
    assert isinstance(mapped, LanceMapped)
    (page,) = mapped._fragments.footer(0).pages.tolist()
    assert lance_file.Page(*page).width == width
    views = mapped.views(np.array([4, 3, 2, 1, 0]))
    assert [None if view is None else view.tobytes() for view in views] == VALUES[::-1]
    # Lance takes the file for one of its own.
    assert table.take(range(5), ["v"])["v"].to_pylist() == VALUES


def test_a_file_with_other_rows_than_the_table_says(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.lance", made_file(VALUES[:4], 4))
    with pytest.raises(StoreError, match="4 rows, not 5"):
        table.mapped("v")


def test_offsets_that_lead_out_of_the_page(tmp_path: Path) -> None:
    content = bytearray(made_file(VALUES, 8))
    at = content.index(struct.pack("<QQ", 0, 12))
    content[at + 40 : at + 48] = struct.pack("<Q", 1 << 62)
    mapped = LanceMapped(table_of(tmp_path / "t.lance", bytes(content)), "v")
    assert mapped.sizes(np.arange(4)).tolist() == [3, 0, 0, 14]
    with pytest.raises(StoreError, match="row 4"):
        mapped.views(np.array([4]))
