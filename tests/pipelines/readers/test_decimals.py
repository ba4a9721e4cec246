"""Numbers of a JSON array, read in compiled code: bit for bit what Python's float makes of them."""

import struct

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.readers import decimals

decimals.read(np.frombuffer(b"1", dtype=np.uint8), 1)  # compiles, so that no test waits for it


def read(text: str) -> list[float] | None:
    """The numbers; None when they must be read in another way."""
    values, count = decimals.read(np.frombuffer(text.encode(), dtype=np.uint8), text.count(",") + 1)
    return None if count < 0 else list(values[:count])


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def test_numbers_and_nulls_are_read_in_their_order() -> None:
    found = read("0,-0,12.50,1e3,-2.5E-3,null,9007199254740993,123456789012345678")
    assert found is not None
    wanted = [0.0, -0.0, 12.5, 1000.0, -0.0025, float("nan"), 9007199254740993.0, 123456789012345678.0]
    assert [bits(value) for value in found] == [bits(value) for value in wanted]


@settings(max_examples=500, deadline=None, database=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_has_the_bits_that_python_gives_it(value: float) -> None:
    found = read(repr(value))
    assert found is None or bits(found[0]) == bits(value)
    assert found is not None or abs(value) < 1e-290 or abs(value) > 1e290  # the rare ones are left to others


@settings(max_examples=500, deadline=None, database=None)
@given(st.integers(0, 10**19 - 1), st.integers(-60, 60))
def test_a_number_of_many_digits_is_rounded_once(digits: int, power: int) -> None:
    found = read(f"{digits}e{power}")
    assert found is None or bits(found[0]) == bits(float(f"{digits}e{power}"))


@settings(max_examples=500, deadline=None, database=None)
@given(st.integers(2**52, 2**53 - 1), st.integers(0, 9))
def test_a_number_just_between_two_goes_to_the_even_one(mantissa: int, power: int) -> None:
    text = str((2 * mantissa + 1) * 2**power)
    found = read(text)
    assert found is None or bits(found[0]) == bits(float(text))


@pytest.mark.parametrize(
    "text",
    [
        "1,", ",1", "1,,2", "01", "1.", ".5", "+1", "1e", "1e+", "1e99999", "nul", "nullx", "true", "1 ,2", '"1"', "-",
        "--1", "1.5.2", "[1]", "12345678901234567890123", "1e400", "NaN", "Infinity", "0x10", "1_0",
    ],
)  # fmt: skip
def test_what_is_no_plain_number_is_left_to_others(text: str) -> None:
    assert read(text) is None


@settings(max_examples=500, deadline=None, database=None)
@given(st.text("0123456789.,-+eEnul ", max_size=30))
def test_what_is_read_is_json(text: str) -> None:
    found = read(text)
    if found is not None and text:
        wanted = [float("nan") if value is None else float(value) for value in orjson.loads(f"[{text}]")]
        assert [bits(value) for value in found] == [bits(value) for value in wanted]
