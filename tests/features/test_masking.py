import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.masking import lines_table, mask
from features.settings import TemplateSettings
from features.tables import LOGS, conform


def masked(text: str) -> str:
    return str(mask(pd.Series([text], dtype="str")).iloc[0])


def logs(*messages: str, node: str = "n1", severity: str = "") -> pd.DataFrame:
    """One line a second."""
    times = pd.date_range("2026-01-01", periods=len(messages), freq="s", tz="UTC", unit="ns")
    frame = pd.DataFrame({"time": times, "message": pd.Series(messages, dtype="str"), "count": 1})
    return conform(frame.assign(node=node, source="kernel", severity=severity, kernel=True), LOGS)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("iter=9999", "iter=<NUM>"),
        ("iter=10000 loss 1.5e-05 t=-5 +5 3-5 v1.2.3", "iter=<NUM> loss <NUM> t=<NUM> <NUM> <NUM>-<NUM> v<NUM>.<NUM>"),
        ("lost GPU-8f6d2a1c-0b5e-4c1d-9a53-3f1f6f5a7d10", "lost GPU-<UUID>"),
        ("id 8f6d2a1c-0b5e-4c1d-9a53", "id <HEX>-<NUM>b<NUM>e-<NUM>c<NUM>d-<NUM>a<NUM>"),
        ("mac 52:54:00:12:34:56 guid 9c63:c003:00d1:2faa", "mac <ADDR> guid <ADDR>"),
        ("addr fe80::5054:ff:fe12:3456", "addr <ADDR>"),
        ("pcieport 0000:3a:00.0: AER", "pcieport <PCI>: AER"),
        ("(0008:01:00) and 3b:00.0 and 00000000:4E:00.0", "(<PCI>) and <PCI> and <PCI>"),
        ("at 16:48:42.424; 2026-01-04T10:15:00.5Z and 2026-01-04", "at <TIME>; <TIME> and <TIME>"),
        ("[2026-01-04 10:15:00,123] INFO - ready", "INFO - ready"),
        ("to 10.11.10.1:2049 or 10.0.0.1/24.", "to <IP> or <IP>/<NUM>."),
        ("BAR [mem 0xb2000000-0xb2ffffff 64bit]", "BAR [mem <HEX>-<HEX> <NUM>bit]"),
        ("span 12345678901234ad 576f9c38fc25e197 deadbeef 00106570", "span <HEX> <HEX> deadbeef <HEX>"),
        ("took 300ms 1m30.5s 30\N{MICRO SIGN}s 12.5GiB 512B", "took <QTY> <QTY> <QTY> <QTY> <QTY>"),
        ("1.5it/s and 12it/s", "<NUM>it/s and <NUM>it/s"),
        ("eth0 nvme0n1 mlx5_0 enp0s31f6", "eth<NUM> nvme<NUM>n<NUM> mlx<NUM>_<NUM> <ID>"),
        ("std::add a::b::c::d cafe:bad", "std::add a::b::c::d cafe:bad"),
        (
            "temp 85\N{DEGREE SIGN}C, r\N{LATIN SMALL LETTER E WITH ACUTE}seau",
            "temp <NUM>\N{DEGREE SIGN}C, r\N{LATIN SMALL LETTER E WITH ACUTE}seau",
        ),
        (
            'open "/p/gb2/map.8k": bad, /dev/sda1: x, HTTP/1.1 a/b/c /',
            'open "<PATH>": bad, <PATH>: x, HTTP/<NUM> a/b/c /',
        ),
        ("cpus 1,2,7 [1, 2, 3] 10.0.0.1,10.0.0.2", "cpus <NUM> [<NUM>] <IP>"),
        ("00106228 00105e94 105e-9 1e5 1.25e10", "<HEX> <HEX> <NUM> <NUM> <NUM>"),
        ("e820: 0x0 - 0xa0000 (usable) 3 - 2", "e<NUM>: <HEX> (usable) <NUM>"),
        ("1, 2s,  3", "<NUM>, <QTY>,  <NUM>"),
        ("no numbers here", "no numbers here"),
    ],
)
def test_what_changes_from_line_to_line_becomes_a_placeholder(text: str, wanted: str) -> None:
    assert masked(text) == wanted


@given(st.integers(0, 10**15))
def test_a_counter_gives_one_line_at_any_length(count: int) -> None:
    assert masked(f"step={count} of {count}: x{count}") == "step=<NUM> of <NUM>: x<NUM>"


@given(st.text(max_size=60))
def test_no_digit_is_left(text: str) -> None:
    assert not re.search("[0-9]", masked(text))


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"], exclude_characters="0123456789:/\ufffd"), max_size=60)
)
def test_a_line_without_digits_and_paths_stays_as_it_is(text: str) -> None:
    assert masked(text) == text


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("019afx:-./ eZTg\N{MICRO SIGN}", max_size=40), max_size=20))
def test_a_line_is_masked_the_same_alone_and_among_others(texts: list[str]) -> None:
    together = mask(pd.Series(texts, dtype="str")).tolist()
    assert together == [masked(text) for text in texts]


def test_the_index_and_order_of_the_messages_stay() -> None:
    found = mask(pd.Series(["b 2", "a 1", "b 3"], index=[5, 3, 9], dtype="str"))
    assert found.to_dict() == {5: "b <NUM>", 3: "a <NUM>", 9: "b <NUM>"}


def test_more_lines_than_one_batch_are_masked_alike() -> None:
    texts = pd.Series([f"line {k} " + "x" * 400 for k in range(6000)], dtype="str")
    assert set(mask(texts)) == {"line <NUM> " + "x" * 400}


def test_lines_that_name_the_target_are_left_out_and_counted() -> None:
    found = lines_table(
        logs(
            "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=a, GPU has fallen off the bus.",
            "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
            "usb 1-1: reset",
        )
    )
    assert found.table["masked"].tolist() == ["usb <NUM>-<NUM>: reset"]
    assert found.counts["target"] == 2
    assert not any("Xid" in text for text in found.table["masked"].cat.categories)


def test_blank_binary_and_overlong_lines_are_counted() -> None:
    found = lines_table(
        logs("", "   ", "\x00\x01\x02\x03ab", "A" * 5000, "\0\0fine words here \x0b too"), TemplateSettings()
    )
    assert found.counts == {"read": 5, "target": 0, "blank": 2, "binary": 1, "truncated": 1}
    assert found.table["masked"].tolist() == ["<BINARY>", "A" * 2000, "fine words here   too"]


def test_lines_come_in_the_order_of_time_whatever_the_order_of_arrival() -> None:
    lines = logs("b 2", "a 2", "a 1", "c 0x5f").assign(time=pd.Timestamp("2026-01-01", tz="UTC").as_unit("ns"))
    first = lines_table(lines).table
    assert first["example"].tolist() == ["a 1", "a 1", "b 2", "c 0x5f"]
    for seed in range(3):
        pd.testing.assert_frame_equal(lines_table(lines.sample(frac=1, random_state=seed)).table, first)


def test_an_error_is_known_by_its_severity_and_else_by_its_words() -> None:
    assert lines_table(logs("fine", severity="err")).table["error"].tolist() == [True]
    assert lines_table(logs("read failed", severity="info")).table["error"].tolist() == [False]
    assert lines_table(logs("read failed", "all is well", "terror")).table["error"].tolist() == [True, False, False]


def test_no_lines_give_an_empty_table_of_the_same_columns() -> None:
    found = lines_table(LOGS.empty())
    assert len(found.table) == 0
    assert found.table.columns.tolist() == lines_table(logs("a")).table.columns.tolist()
    assert found.table["time"].dtype == lines_table(logs("a")).table["time"].dtype
    assert found.table["error"].dtype == bool
