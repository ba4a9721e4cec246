"""The compiled reader says what Python's own JSON and float say, or leaves it to them."""

import random
from unittest import mock

import httpx
import numpy as np
import orjson
import pytest

from pipelines.readers import answers, prometheus_api
from pipelines.readers.prometheus_api import Server, fetch
from pipelines.readers.tally import Tally


def body(values: str, metric: str = '{"__name__":"m"}') -> bytes:
    said = f'{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{metric},"values":{values}}}]}}}}'
    return said.encode()


def read(text: str) -> float:
    found = answers.decode(body(f'[[1,"{text}"]]'))
    assert found is not None
    return float(found.values[0])


@pytest.mark.parametrize(
    "text",
    ["0", "-0", "1", "0.1", "-12.5", "1e5", "1E-7", "123456789012345678", "9007199254740993", "0.30000000000000004",
     "1e22", "1e23", "5e-324", "1.7976931348623157e+308", "12345678901234567890123", "0.1e1", "+Inf", "-Inf"],
)  # fmt: skip
def test_a_number_is_read_as_python_reads_it(text: str) -> None:
    assert np.float64(read(text)).tobytes() == np.float64(text).tobytes()


def test_what_is_no_number_is_nan() -> None:
    assert np.isnan(read("NaN"))


def test_random_numbers_are_read_to_the_bit() -> None:
    choose = random.Random(1)  # noqa: S311  # numbers to read, no secret
    texts = [repr(choose.uniform(-1, 1) * 10.0 ** choose.randrange(-25, 25)) for _ in range(20_000)]
    texts += [f"{choose.randrange(10**17)}.{choose.randrange(10**4)}" for _ in range(5_000)]
    found = answers.decode(body("[" + ",".join(f'[1,"{text}"]' for text in texts) + "]"))
    assert found is not None
    assert found.values.tobytes() == np.array([float(text) for text in texts]).tobytes()


def test_times_are_exact_to_the_millisecond() -> None:
    found = answers.decode(body('[[1767225600,"1"],[1767225615.5,"2"],[1767225630.007,"3"]]'))
    assert found is not None
    assert found.times.tolist() == [1767225600000, 1767225615500, 1767225630007]


def test_labels_may_hold_anything_a_text_can() -> None:
    labels = {"__name__": "m", "a": '}"],"values":[[1,', "b": "\\", "ü": "\n", "c": '{"metric":{'}
    found = answers.decode(body('[[1,"2"]]', orjson.dumps(labels).decode()))
    assert found is not None
    assert found.labels == [labels]


def test_an_answer_without_series_is_read() -> None:
    found = answers.decode(b'{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["w"]}')
    assert found is not None
    assert found.labels == []
    assert found.envelope["warnings"] == ["w"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"status":"success","data":{"resu',
        body('[[1,"2"]]')[:-6],
        body('[[1,"2"],[1'),
        body('[[1, "2"]]'),
        body('[[1.0001,"2"]]'),
        body("[]"),
        body('[[1,"x"]]'),
        body('[[1,"2"]]', '{"a":1}'),
        body('[[1,"2"]],"histograms":[]'),
        b'{"status":"success","data":{"result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}',
    ],
)  # fmt: skip
def test_what_is_of_another_form_is_left_to_others(content: bytes) -> None:
    assert answers.decode(content) is None


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_an_answer_cut_anywhere_is_left_to_others(cut: int) -> None:
    assert answers.decode(body('[[1,"2"],[3,"4"]]')[:-cut]) is None


def pulled(at_least: int) -> tuple[list[tuple[str, list[int], list[float]]], Tally]:
    tally, second = Tally(), 1_000_000_000
    start = 1_767_225_600 * second
    values = (
        '[[1767225599,"9"],[1767225600,"1"],[1767225615.5,"NaN"],[1767225630,"+Inf"],[1767225660,"4"],[1767225720,"5"]]'
    )
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body(values)))
    with mock.patch.object(prometheus_api, "_LARGE", at_least):
        found = fetch(Server("http://p"), start, start + 120 * second, (), tally, transport=transport)
        said = [(str(chunk.labels), chunk.times.tolist(), chunk.values.tolist()) for chunk in found]
    return said, tally


def test_both_ways_of_reading_an_answer_give_the_same_samples_and_counts() -> None:
    assert pulled(0) == pulled(1 << 40)
    assert pulled(0)[1].rejected == {"nan": 1, "+inf": 1}
