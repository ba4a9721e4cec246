"""Which code is a failure."""

import pytest

from features import catalogue
from features.settings import LabelSettings
from features.tables import UsageError

HARDWARE = {
    46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 144, 145, 146, 147, 148, 149, 150, 151, 155, 156,
    158, 167, 171, 172,
}  # fmt: skip


def test_the_hardware_preset_counts_its_codes_and_no_others() -> None:
    settings = LabelSettings()
    found = {
        code
        for code in catalogue.codes()
        if catalogue.is_target(code, catalogue.kind(code, severity="Fatal"), settings)
    }
    assert found == HARDWARE


def test_the_paper_preset_counts_the_codes_of_the_study() -> None:
    settings = LabelSettings(preset="paper")
    found = {code for code in catalogue.codes() if catalogue.is_target(code, catalogue.kind(code), settings)}
    assert found == {31, 43, 79, 94, 119, 145, 149}


@pytest.mark.parametrize(("severity", "kind"), [("Fatal", "hardware"), ("Nonfatal", "degradation"), ("", "unknown")])
def test_an_nvlink_error_counts_only_when_it_is_said_to_be_fatal(severity: str, kind: str) -> None:
    assert catalogue.kind(149, severity) == kind


def test_the_user_s_codes_go_before_the_catalogue() -> None:
    settings = LabelSettings(hardware=(31,), not_hardware=(79,))
    assert catalogue.is_target(31, "application", settings)
    assert not catalogue.is_target(79, "hardware", settings)


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="presets are hardware, paper, all"):
        catalogue.is_target(79, "hardware", LabelSettings(preset="mine"))


@pytest.mark.parametrize(
    ("code", "action"), [(79, "RESTART_BM"), (119, "RESET_GPU"), (31, "RESTART_APP"), (43, "IGNORE")]
)
def test_the_action_is_nvidia_s(code: int, action: str) -> None:
    assert catalogue.action(code) == action


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xid,class\n31,hardware\n", "no column code"),
        ("code,klass\n31,hardware\n", "unknown column klass"),
        ("code,class\n31,hardware\n# a word\nmany,hardware\n", "line 4: .*many"),
        ("code,class\n31,broken\n", "line 2: "),
        ("code,class\n31,hardware\n31,hardware\n", "line 3: code 31 comes twice"),
    ],
)
def test_a_catalogue_of_the_user_s_that_is_wrong_is_told_its_line(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        catalogue.parse(text)


def test_the_user_s_catalogue_changes_only_what_it_says() -> None:
    settings = LabelSettings(codes=catalogue.parse("code,class\n79,application\n"))
    row = catalogue.lookup(79, settings)
    assert row is not None
    assert (row.kind, row.action, row.paper) == ("application", "RESTART_BM", True)


def test_an_nvlink_error_that_is_not_fatal_stays_so_in_the_user_s_catalogue() -> None:
    settings = LabelSettings(codes=catalogue.parse("code,class\n149,hardware\n"))
    assert not catalogue.is_target(149, "degradation", settings)
    assert catalogue.is_target(149, "hardware", settings)
