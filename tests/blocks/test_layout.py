"""The rule by which columns are cut: orders and saved states are built on it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.blocks.layout import layout_of
from datalake.errors import InputError
from datalake.schema import UTTERANCES, media_field

WIDE = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("action", pa.list_(pa.float32(), 7)),
        pa.field("joints", pa.list_(pa.float64(), 128)),
        pa.field("embedding", pa.list_(pa.float32(), 4096)),
        pa.field("text", pa.string()),
        pa.field("many", pa.list_(pa.float32())),
    ]
)
CAMERAS = pa.schema([media_field("front", "image"), media_field("wrist", "image")])


@pytest.mark.parametrize(
    ("schema", "column", "num_rows", "num_bytes", "expected"),
    [
        (UTTERANCES, "duration_s", 20_000, 1_990_000_000, 65_536),
        (UTTERANCES, "label", 20_000, 1_990_000_000, 65_536),
        # 99.5 kB a row: 32 rows are 3.2 MB, 64 would be 6.4 MB, more than 16/3 MiB.
        (UTTERANCES, "audio", 20_000, 1_990_000_000, 32),
        (UTTERANCES, "audio", 1, 1 << 40, 1),
        (UTTERANCES, "audio", 1_000_000, 1_000, 65_536),
        (UTTERANCES, "audio", 0, 0, 65_536),
        # Exactly 16/3 MiB a block still fits; one byte more in a row does not.
        (UTTERANCES, "audio", 3 << 10, 16 << 20, 1 << 10),
        (UTTERANCES, "audio", 3 << 10, (16 << 20) + 1, 1 << 9),
        (CAMERAS, "front", 24_175, 597_000_000, 256),
        (WIDE, "flag", 10, 100, 65_536),
        (WIDE, "action", 10, 100, 65_536),
        (WIDE, "joints", 10, 100, 16_384),
        (WIDE, "embedding", 10, 100, 1_024),
        (WIDE, "text", 1_000, 100_000, 65_536),
        (WIDE, "text", 1_000, 10_000_000, 4_096),
    ],
)
def test_the_rule_never_changes(
    schema: pa.Schema, column: str, num_rows: int, num_bytes: int, expected: int
) -> None:
    layout = layout_of(schema, column, num_rows=num_rows, num_bytes=num_bytes)
    assert layout.block_rows == expected


@given(st.integers(1, 10**9), st.integers(0, 10**13))
def test_media_blocks_have_about_4_mib(num_rows: int, num_bytes: int) -> None:
    layout = layout_of(UTTERANCES, "audio", num_rows=num_rows, num_bytes=num_bytes)
    block_bytes = layout.block_rows * num_bytes / num_rows
    assert layout.block_rows == 1 or block_bytes <= 16 / 3 * 2**20
    assert layout.block_rows == 65_536 or 2 * block_bytes > 16 / 3 * 2**20
    spans = [layout.span(block) for block in (0, layout.num_blocks - 1)]
    assert spans[0][0] == 0
    assert spans[-1][1] == num_rows


def test_a_column_of_lists_is_refused() -> None:
    with pytest.raises(InputError, match=r"many.*Table\.take"):
        layout_of(WIDE, "many", num_rows=1, num_bytes=1)
