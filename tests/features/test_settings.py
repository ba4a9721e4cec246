from datetime import timedelta

import pytest

from features.settings import SignalSettings, format_duration, parse_duration


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("20m", 1200), ("6h", 21600), ("7d", 604800), ("90s", 90)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert format_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize("text", ["", "20", "m", "0m", "-5m", "1.5h", "5w", "20 m"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


def test_an_empty_list_of_parameters_stands_for_none_as_toml_has_no_null() -> None:
    assert SignalSettings.model_validate({"gauge": {"mean": []}}).gauge == {"mean": None}
