"""The parser of `tf.train.Example` against the one of the protobuf library, on random messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.refused import RefusedError
from connectors.rlds.tf_example import parse_example


def _example_class() -> Any:
    """`tf.train.Example`, built from its definition."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tf", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, label=field.LABEL_REPEATED, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), start=1):
        kind_name = f".tf.{name.title().replace('_', '')}"
        feature.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=kind_name,
            oneof_index=0,
            label=field.LABEL_OPTIONAL,
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    optional = field.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=optional)
    entry.field.add(
        name="value", number=2, type=field.TYPE_MESSAGE, type_name=".tf.Feature", label=optional
    )
    features.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".tf.Features.FeatureEntry",
        label=field.LABEL_REPEATED,
    )
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features", number=1, type=field.TYPE_MESSAGE, type_name=".tf.Features", label=optional
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tf.Example"))


EXAMPLE = _example_class()

values = st.one_of(
    st.lists(st.binary(max_size=300), max_size=4).map(lambda found: ("bytes_list", found)),
    st.lists(st.floats(width=32), max_size=200).map(lambda found: ("float_list", found)),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200).map(
        lambda found: ("int64_list", found)
    ),
    st.lists(st.integers(0, 300), max_size=200).map(lambda found: ("int64_list", found)),
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=10), values, max_size=6))
def test_equals_the_protobuf_library(lists: dict[str, tuple[str, list[Any]]]) -> None:
    message = EXAMPLE()
    for name, (kind, found) in lists.items():
        getattr(message.features.feature[name], kind).value.extend(found)
    parsed = parse_example(memoryview(message.SerializeToString()))
    assert parsed.keys() == {name for name in lists if name in message.features.feature}
    for name, (kind, found) in lists.items():
        if kind == "bytes_list":
            assert [bytes(each) for each in parsed[name]] == found
        elif kind == "float_list":
            expected = np.array(getattr(message.features.feature[name], kind).value, np.float32)
            assert np.array(parsed[name], np.float32).tobytes() == expected.tobytes()
        else:
            assert np.array(parsed[name], np.int64).tolist() == found


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_read_and_never_a_crash(data: bytes) -> None:
    try:
        parse_example(memoryview(data))
    except RefusedError:
        return


def test_numbers_may_be_unpacked() -> None:
    # Field 1 of wire type 5 and 0: what encoders before proto3 write.
    floats = b"".join(b"\x0d" + np.float32(value).tobytes() for value in (1.5, -2.0))
    integers = b"\x08\x05\x08\xac\x02"
    for kind, listed, expected in ((2, floats, [1.5, -2.0]), (3, integers, [5, 300])):
        feature = bytes([kind << 3 | 2, len(listed)]) + listed
        entry = b"\x0a\x01k\x12" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        example = b"\x0a" + bytes([len(features)]) + features
        assert list(np.array(parse_example(memoryview(example))["k"])) == expected


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05a", b"\x12\x00", b"\x0f", b"\xff" * 12])
def test_what_is_no_example_says_so(data: bytes) -> None:
    with pytest.raises(RefusedError, match=r"no tf\.train\.Example"):
        parse_example(memoryview(data))


def test_long_lists_of_integers_of_all_lengths() -> None:
    random = np.random.default_rng(0)
    whole = random.integers(-(2**63), 2**63 - 1, 50_000, np.int64)
    expected = whole >> random.integers(0, 64, 50_000)
    message = EXAMPLE()
    message.features.feature["k"].int64_list.value.extend(expected.tolist())
    parsed = parse_example(memoryview(message.SerializeToString()))
    assert np.array_equal(parsed["k"], expected)
