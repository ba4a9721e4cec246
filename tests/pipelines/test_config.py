from itertools import pairwise
from pathlib import Path

import pytest

from features.tables import UsageError
from pipelines.config import Config, load, to_toml


def test_without_a_file_the_defaults_hold() -> None:
    assert load() == Config()


def test_what_is_shown_can_be_read_back(tmp_path: Path) -> None:
    file = tmp_path / "foreshock.toml"
    file.write_text(to_toml(Config()))
    assert load(file) == Config()


def test_every_setting_is_shown_with_what_it_means() -> None:
    lines = to_toml(Config()).splitlines()
    bare = [line for before, line in pairwise(lines) if " = " in line and not before.startswith("# ")]
    assert bare == []
    assert "# A window's end is a multiple of it since 1970." in lines


def test_the_schema_says_what_each_setting_means() -> None:
    schema = Config.model_json_schema(mode="serialization")
    assert schema["$defs"]["WindowSettings"]["properties"]["stride"]["description"].startswith("A window's end")


def test_tables_and_lists_of_the_user_are_shown_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "foreshock.toml"
    file.write_text(
        '[ingest]\naliases = { "10.0.0.7" = "n7", \'a"b\' = "x" }\n'
        '[features.panel]\nbounds = { "^T\\\\d" = [0, 1.5] }\n'
    )
    held = load(file)
    file.write_text(to_toml(held))
    assert load(file) == held


def test_a_file_changes_only_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "foreshock.toml"
    file.write_text('[features.window]\nlength = "30m"\n')
    settings = load(file)
    assert settings.features.window.length.total_seconds() == 1800
    assert settings.features.window.stride == Config().features.window.stride


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[features.window]\nlenght = '30m'\n", "features.window.lenght"),
        ("[features.window]\nlength = '30 minutes'\n", "is no duration; write one as 30s"),
        ("[evaluation]\nbudget_per_day = 0\n", "evaluation.budget_per_day"),
        ("[evaluation\n", "not TOML"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "foreshock.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=complaint) as caught:
        load(file)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "absent.toml")


def test_the_user_s_catalogue_is_read_and_shown(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code,class\n31,hardware\n")
    file = tmp_path / "foreshock.toml"
    file.write_text('[labels]\ncatalogue = "codes.csv"\n')
    assert load(file).labels.codes[31].kind == "hardware"
    file.write_text(to_toml(load(file)))
    assert load(file).labels.codes[31].kind == "hardware"


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("code,class\n31,broken\n", "codes.csv: line 2")])
def test_a_catalogue_that_can_t_be_used_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    if text:
        (tmp_path / "codes.csv").write_text(text)
    file = tmp_path / "foreshock.toml"
    file.write_text('[labels]\ncatalogue = "codes.csv"\n')
    with pytest.raises(UsageError, match=said) as caught:
        load(file)
    assert "\n" not in str(caught.value)
