"""Kernel lines to XID events."""

import csv
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import catalogue, xid
from features.tables import EVENTS, GPUS, LOGS, check, conform


def lines(*messages: str, step: float = 600, kernel: bool = True, source: str = "kernel") -> pd.DataFrame:
    """A table of logs of node n1, `step` seconds apart."""
    start = pd.Timestamp("2026-01-01T00:00:00Z")
    times = [start + pd.Timedelta(seconds=step * place) for place in range(len(messages))]
    frame = pd.DataFrame({"node": "n1", "time": times, "source": source, "message": messages, "kernel": kernel})
    return conform(frame.assign(count=1), LOGS)


def decoded(*messages: str, step: float = 600) -> pd.DataFrame:
    return check(xid.decode(lines(*messages, step=step), GPUS.empty()), EVENTS)


@pytest.mark.parametrize(
    ("message", "pci", "code", "severity", "mig", "link", "kind"),
    [
        (
            "NVRM: Xid (PCI:0000:4e:00): 79, pid=9962, name=python, GPU has fallen off the bus.",
            "0000:4e:00", 79, "", "", None, "hardware",
        ),
        (
            "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0000:91:00", 79, "", "", None, "hardware",
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00", 14, "", "", None, "unknown"),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            "0000:01:00", 94, "", "gi=5", None, "degradation",
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a b, Graphics Exception",
            "0000:3b:00", 13, "", "gi=1 ci=2", None, "application",
        ),
        (
            "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)",
            "0008:01:00", 149, "Fatal", "", 8, "hardware",
        ),
        (
            "NVRM: Xid (PCI:0000:00:1e): 149, NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]",
            "0000:00:1e", 149, "Fatal", "", 1, "hardware",
        ),
        (
            "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x004505c6 0x00000000)",
            "0008:01:00", 149, "Fatal", "", None, "hardware",
        ),
        (
            "NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000000)",
            "0000:04:00", 145, "Nonfatal", "", 0, "degradation",
        ),
        (
            "NVRM: Xid (PCI:0008:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00082226)",
            "0008:01:00", 149, "Nonfatal", "", 1, "degradation",
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            "0009:01:00", 154, "", "", None, "metadata",
        ),
        (
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=p, Ch 00000001 caused by previous Xid 149",
            "0000:dc:00", 45, "", "", None, "application",
        ),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "0000:18:00", 79, "", "", None, "hardware"),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 32",
            "0000:c4:00", None, "Fatal", "", 32, "switch",
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 9999, something new", "0000:3b:00", 9999, "", "", None, "unknown"),
        (
            "Dec  9 12:34:44 n1 kernel: [ 7561.089746] [ T1946] NVRM: Xid (PCI:0000:01:00): 62, 323f0f30 0000c3d8",
            "0000:01:00", 62, "", "", None, "hardware",
        ),
    ],
)  # fmt: skip
def test_every_form_of_line_is_decoded(
    message: str, pci: str, code: int | None, severity: str, mig: str, link: int | None, kind: str
) -> None:
    event = decoded(message).iloc[0]
    found = [
        None if pd.isna(event[name]) else event[name] for name in ("pci", "xid", "severity", "mig", "link", "kind")
    ]
    assert found == [pci, code, severity, mig, link, kind]


def test_the_process_is_no_part_of_the_detail() -> None:
    message = "NVRM: Xid (PCI:0000:02:00): 109, pid=8494,   name=Render: a b, channel 0x0d, CTX SWITCH TIMEOUT"
    assert decoded(message)["detail"].tolist() == ["channel 0x0d, CTX SWITCH TIMEOUT"]


def test_the_sub_code_of_a_link_event_is_in_the_detail() -> None:
    message = "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x00000000)"
    assert decoded(message)["detail"].tolist() == ["NETIR_LINK_EVT sub-code 4 (0x004505c6 0x00000000)"]


@pytest.mark.parametrize("step", [0.0, 0.3])
def test_a_gpu_lost_in_three_lines_is_one_xid_79(step: float) -> None:
    events = decoded(
        "NVRM: The NVIDIA GPU 0000:5a:00.0",
        "NVRM: (PCI ID: 10de:1234) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        step=step,
    )
    assert events[["pci", "xid", "kind"]].to_numpy().tolist() == [["0000:5a:00", 79, "hardware"]]


def test_a_gpu_lost_in_one_joined_line_is_one_xid_79() -> None:
    events = decoded(
        "NVRM: The NVIDIA GPU 0000:5a:00.0 NVRM: (PCI ID: 10de:1234) installed in this system has "
        "NVRM: fallen off the bus and is not responding to commands."
    )
    assert events[["pci", "xid"]].to_numpy().tolist() == [["0000:5a:00", 79]]


@pytest.mark.parametrize(("seconds", "events"), [(2, 1), (240, 1), (360, 2)])
def test_a_plain_loss_near_an_xid_79_is_the_same_loss(seconds: int, events: int) -> None:
    found = decoded(
        "NVRM: Xid (PCI:0000:5a:00): 79, pid=1, name=a, GPU has fallen off the bus.",
        "NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.",
        step=seconds,
    )
    assert len(found) == events
    assert found["count"].sum() == 2


@pytest.mark.parametrize(
    "message",
    [
        "NVRM:  Xid  (PCI:0000:4e:00  GPU-I:05):   79,  pid=1,  name=a,  GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:4e:00 GPU-I:05):79,pid=1,name=a,GPU has fallen off the bus.",
        "nvrm: xid (pci:0000:4e:00 gpu-i:05): 79, pid=1, name=a, GPU has fallen off the bus.",
    ],
)
def test_blanks_and_case_do_not_matter(message: str) -> None:
    line = xid.read_line(message)
    assert isinstance(line, xid.Line)
    assert (line.pci, line.xid, line.mig, line.detail) == ("0000:4e:00", 79, "gi=5", "GPU has fallen off the bus.")


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:18:00: GPU has fallen off the bus.",
        "NVRM: GPU at 0000:18:00.0 has fallen off the bus.",
    ],
)
def test_a_loss_without_an_xid_is_one_in_every_driver_s_words(message: str) -> None:
    line = xid.read_line(message)
    assert isinstance(line, xid.Line)
    assert (line.pci, line.xid) == ("0000:18:00", 79)


def test_lines_that_a_logger_joined_are_each_an_event() -> None:
    message = (
        "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=a, GPU has fallen off the bus. "
        "NVRM: Xid (PCI:0018:01:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x4) "
        "nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, x"
    )
    events = decoded(message)
    assert sorted(events["pci"]) == ["0000:4e:00", "0000:c4:00", "0018:01:00"]
    assert "145" not in events["detail"].iloc[0]


def test_a_flood_is_one_event_with_its_count_and_both_ends() -> None:
    flood = ["NVRM: Xid (PCI:0000:4e:00): 95, pid=77, name=t, Uncontained error"] * 5000
    event = decoded(*flood, step=0.1)
    assert event["count"].tolist() == [5000]
    assert (event["last"] - event["time"]).tolist() == [pd.Timedelta(seconds=499.9)]


def test_a_flood_of_changing_numbers_is_one_event() -> None:
    flood = [f"NVRM: Xid (PCI:0000:4e:00): 31, pid=7, name=t, Ch {n:08x}, faulted @ 0x{n:x}_0" for n in range(1000)]
    assert decoded(*flood, step=0.1)["count"].tolist() == [1000]


def test_a_flood_of_changing_words_is_one_event_once_it_is_large() -> None:
    words = ["".join("abcdefghij"[int(digit)] for digit in str(place)) for place in range(2000)]
    assert decoded(*(f"NVRM: Xid (PCI:0000:4e:00): 31, pid=7, name=t, {word}" for word in words), step=0.1)[
        "count"
    ].tolist() == [2000]


def test_lines_read_in_pieces_give_the_same_events() -> None:
    logs = lines(
        "NVRM: GPU at PCI:0000:5a:00: GPU-6f0d1234-aaaa",
        "NVRM: The NVIDIA GPU 0000:5a:00.0",
        "NVRM: (PCI ID: 10de:1234) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: Xid (PCI:0000:4e:00): 95, x",
        "NVRM: Xid (PCI:0000:4e:00): 95, x",
        step=0.3,
    )
    whole = xid.decode(logs, GPUS.empty())
    assert whole[["pci", "gpu", "xid", "count"]].to_numpy().tolist() == [
        ["0000:5a:00", "GPU-6f0d1234-aaaa", 79, 1],
        ["0000:4e:00", "", 95, 2],
    ]
    for size in (1, 2, 3, 4):
        pieces = [logs[first : first + size] for first in range(0, len(logs), size)]
        pd.testing.assert_frame_equal(xid.decode_pieces(pieces, GPUS.empty()), whole)


def test_the_same_line_an_hour_later_is_another_event() -> None:
    assert len(decoded(*["NVRM: Xid (PCI:0000:4e:00): 95, x"] * 2, step=3600)) == 2


def test_folding_in_pieces_is_folding_at_once() -> None:
    flood = lines(*["NVRM: Xid (PCI:0000:4e:00): 95, x"] * 100, step=1)
    pieces = [xid.decode(flood[start : start + 10], GPUS.empty()) for start in range(0, 100, 10)]
    pd.testing.assert_frame_equal(xid.fold(pd.concat(pieces)), xid.decode(flood, GPUS.empty()))


def test_a_flood_of_changing_numbers_is_one_event_in_pieces_too() -> None:
    flood = lines(*(f"NVRM: Xid (PCI:0000:4e:00): 95, LTC (0x{n:x})" for n in range(2400)), step=0.1)
    events = xid.decode_pieces([flood[:1200], flood[1200:]], GPUS.empty())
    assert events["count"].tolist() == [2400]


def test_what_can_t_be_read_is_counted_and_the_rest_goes_on() -> None:
    counts: Counter[str] = Counter()
    messages = (
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from )x( to",
        "NVRM: Xid (PCI:zz:3b:00): , ",
        "NVRM: Xid (",
        "Xid",
        "NVRM: Xid (PCI:0000:3b:00): 0, no error",
        "NVRM: Xid (PCI:0000:3b:00): 79, x",
    )
    events = xid.decode(lines(*messages), GPUS.empty(), counts)
    assert events[["xid", "detail"]].to_numpy().tolist() == [[154, ""], [79, "x"]]
    assert (counts["malformed"], counts["zero"]) == (3, 1)


def test_a_program_that_quotes_an_xid_is_not_believed() -> None:
    counts: Counter[str] = Counter()
    logs = lines("saw NVRM: Xid (PCI:0000:4e:00): 79, x", kernel=False, source="gpu-watcher")
    assert xid.decode(logs, GPUS.empty(), counts).empty
    assert counts["quoted by a program"] == 1


def test_a_line_of_an_export_that_names_no_program_is_believed() -> None:
    logs = lines("NVRM: Xid (PCI:0000:4e:00): 79, x", kernel=False, source="")
    assert len(xid.decode(logs, GPUS.empty())) == 1


def test_an_event_keeps_the_uuid_last_seen_at_its_address() -> None:
    stamps = [pd.Timestamp(day, tz="UTC") for day in ("2025-12-01", "2025-12-20", "2026-02-01")]
    gpus = pd.DataFrame({"node": "n1", "gpu": ["GPU-a", "GPU-b", "GPU-c"], "pci": "0000:4e:00", "first": stamps})
    events = xid.decode(lines("NVRM: Xid (PCI:0000:4e:00): 79, x"), conform(gpus.assign(last=stamps), GPUS))
    assert events["gpu"].tolist() == ["GPU-b"]


def test_an_event_of_an_unknown_gpu_is_kept() -> None:
    assert decoded("NVRM: Xid (PCI:0000:4e:00): 79, x")["gpu"].tolist() == [""]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("00000000:4E:00.0", "0000:4e:00"),
        ("0000:4e:00", "0000:4e:00"),
        ("4e:00.0", "0000:4e:00"),
        ("00000008:06:00.0", "0008:06:00"),
        ("0019:01:00", "0019:01:00"),
        ("00010000:01:00.0", "10000:01:00"),
        ("PCI:0000:01:00", "0000:01:00"),
        ("zz:01:00", ""),
        ("", ""),
    ],
)
def test_a_pci_address_has_one_form(written: str, canonical: str) -> None:
    assert xid.pci(written) == canonical


@pytest.mark.parametrize(
    ("message", "barred"),
    [
        ("NVRM: Xid (PCI:0000:4e:00): 79, x", True),
        ("gpud: found xid 79 on gpu 3", True),
        ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 32", True),
        ("GPU 3 has fallen off the bus", True),
        ("GPU recovery action changed to 0x2 (Node Reboot Required)", True),
        ("NVRM: The NVIDIA GPU 0000:5a:00.0", True),
        ("NVRM: GPU at PCI:0000:c1:00: GPU-6f0d", True),
        ("eth0: link becomes ready", False),
        ("taxidermy exited", False),
    ],
)
def test_lines_that_name_the_target_are_barred_from_features(message: str, barred: bool) -> None:
    assert xid.is_target_line(pd.Series([message], dtype="str")).tolist() == [barred]


@pytest.mark.parametrize(
    "evil",
    [
        "NVRM: Xid (PCI:" + "0" * 1_000_000,
        "NVRM: Xid (PCI:0000:4e:00): 79, pid=" + "a" * 1_000_000,
        "NVRM: Xid (PCI:0000:4e:00): 149, " + "A_" * 500_000,
        "NVRM: Xid (PCI:0000:4e:00): 149, " + "NETIR Fatal XC" * 70_000,
        "Xid " * 250_000,
        "NVRM: Xid (" * 90_000,
        "recovery action changed from 0x0 (" * 30_000,
        "NVRM: GPU " * 100_000,
        "NVRM: Xid (PCI:0000:4e:00): 79, " + " " * 1_000_000,
    ],
)
def test_a_megabyte_made_to_be_slow_is_read_within_a_second(evil: str) -> None:
    began = time.process_time()
    decoded(evil)
    assert time.process_time() - began < 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                ["NVRM: Xid (", "PCI:", "0000:4e:00", "): ", "149, ", "NETIR_LINK_EVT", " Fatal ", "XC0 i0 Link 08 ("]
            ),
            st.sampled_from(
                ["0x004505c6", "pid=", "name=", "SXid (", "fallen off the bus", "\n", "GPU-I:", "-1", ", "]
            ),
        ),
        max_size=12,
    )
)
def test_no_mixture_of_pieces_of_lines_raises(pieces: list[str]) -> None:
    check(xid.decode(lines("".join(pieces)), GPUS.empty()), EVENTS)


def told(line: xid.Line | str | None) -> list[str]:
    """What a line says, as the expectations are written."""
    if not isinstance(line, xid.Line):
        return [line or "nothing", *[""] * 6]
    cells = (line.pci, line.xid, line.severity, line.mig, line.link, line.kind)
    return ["event", *("" if cell is None else str(cell) for cell in cells)]


@pytest.mark.parametrize("name", ["xid/xid_lines.tsv", "kernel/dmesg_iso.log", "kernel/kmsg_raw.log"])
def test_every_real_line_is_decoded_to_what_a_person_read_in_it(real_data: Path, name: str) -> None:
    expected = {}
    with Path(__file__).with_name("xid_expected.csv").open(encoding="utf-8", newline="") as file:
        for path, place, *cells in csv.reader(file):
            expected[path, place] = cells
    lines = (real_data / name).read_text(encoding="utf-8").split("\n")
    nothing = ["nothing", *[""] * 6]
    for number, line in enumerate(lines, 1):
        found = told(xid.read_line(line.rpartition("\t")[2]))
        assert found == expected.get((name, str(number)), nothing), f"line {number}"


def test_the_fabric_manager_s_log_speaks_of_no_xid(real_data: Path) -> None:
    text = (real_data / "kernel" / "fabricmanager.log").read_text(encoding="utf-8")
    assert all(xid.read_line(line) is None for line in text.split("\n"))


def test_the_catalogue_knows_every_code_from_1_to_172() -> None:
    assert sorted(catalogue.codes()) == list(range(1, 173))


def test_every_code_of_the_catalogue_is_decoded_to_its_class() -> None:
    for code, row in catalogue.codes().items():
        rest = "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x1)" if code in catalogue.NVLINK else "x"
        event = decoded(f"NVRM: Xid (PCI:0000:4e:00): {code}, {rest}").iloc[0]
        assert (event["xid"], event["kind"]) == (code, row.kind)


def test_every_class_of_the_catalogue_is_one_that_the_decoder_knows() -> None:
    kinds = {row.kind for row in catalogue.codes().values()}
    assert kinds == {"hardware", "degradation", "application", "metadata", "unknown"}


def test_codes_that_nvidia_does_not_explain_are_said_to_be_undocumented() -> None:
    assert catalogue.codes()[91].meaning == "not documented publicly"
    assert all(row.meaning and row.mnemonic for row in catalogue.codes().values())
