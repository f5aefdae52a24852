"""Places on curves: in the order of values, and next to their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.errors import Unsupported
from headwater.storage.rows.hilbert import hilbert_curve, hilbert_order
from headwater.storage.rows.z_order import z_order
from headwater.storage.types.data_type import parse_type, to_arrow


def places(kind: str, values: Sequence[object]) -> list[bytes]:
    array = pa.array(values, to_arrow(parse_type(kind)))
    return [bytes(row) for row in z_order([array], [parse_type(kind)], 8)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BOOLEAN", [None, True]),
        ("TINYINT", [None, -128, -1, 0, 1, 127]),
        ("BIGINT", [None, 1 - 2**63, -1, 0, 2**63 - 1]),
        ("DOUBLE", [None, -1e300, -2.5, 0.0, 1e-300, 1.0, 2.0, 1e300, float("inf")]),
        ("DECIMAL(9, 2)", [None, *(Decimal(n) for n in ("-1e6", "-2.56", "0", "0.01", "2.56"))]),
        (
            "DECIMAL(38, 2)",
            [None, *(Decimal(n).scaleb(30) for n in (-99999, -65536, -256, -1, 0, 1, 256, 65536))],
        ),
        ("STRING", [None, "a", "ab", "b", "ü"]),
        ("BYTES", [None, b"\0\1", b"a", b"a\0\1", b"\xff"]),
    ],
)
def test_places_of_one_column_are_in_the_order_of_its_values(
    kind: str, values: list[object]
) -> None:
    found = places(kind, values)
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_the_first_bits_of_all_columns_come_first() -> None:
    kinds = [parse_type(kind) for kind in ("TINYINT", "STRING", "BINARY(3)")]
    columns = [pa.array([-128], pa.int8()), pa.array(["\x01"]), pa.array([b"\xff\0\xff"])]
    (found,) = z_order(columns, kinds, 2)
    # 64 bits of the number, 16 of each text, in turns until the text ends.
    bits = "".join(f"{byte:08b}" for byte in found)
    turns = [bits[at : at + 3] for at in range(0, 48, 3)]
    number = f"{(-128 + 2**63):064b}"
    texts = (f"{0x0100:016b}", f"{0xFF00:016b}")
    assert turns == ["".join(each) for each in zip(number, *texts, strict=False)]
    assert bits[48:] == number[16:]


@pytest.mark.parametrize("columns", [9, 12])
def test_many_columns_take_turns_as_few_do(columns: int) -> None:
    array, kind = pa.array([-1, 5], pa.int64()), parse_type("BIGINT")
    many = z_order([array] * columns, [kind] * columns, 8)
    few = z_order([array] * 4, [kind] * 4, 8)
    for row, other in zip(np.unpackbits(many, axis=1), np.unpackbits(few, axis=1), strict=True):
        assert row[::columns].tolist() == other[::4].tolist()
        assert row[columns - 1 :: columns].tolist() == other[::4].tolist()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_next_place_of_a_hilbert_curve_is_next_to_the_last(dimensions: int) -> None:
    side = 8
    grid = np.indices((side,) * dimensions).reshape(dimensions, -1).astype(np.uint64)
    found = [bytes(row) for row in hilbert_curve(list(grid))]
    numbers = [int.from_bytes(place, "big") for place in found]
    assert sorted(numbers) == list(range(side**dimensions))
    walk = grid[:, np.argsort(numbers)].astype(np.int64)
    assert np.abs(np.diff(walk, axis=1)).sum(axis=0).tolist() == [1] * (side**dimensions - 1)


def test_types_without_a_place_are_refused() -> None:
    kind = parse_type("VARIANT")
    array = pa.array([None], to_arrow(kind))
    with pytest.raises(Unsupported, match="Z-order"):
        z_order([array], [kind], 8)
    with pytest.raises(Unsupported, match="Hilbert"):
        hilbert_order([array, array], [kind, kind])
