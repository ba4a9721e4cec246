from pathlib import Path

import numpy as np
import orjson
import pandas as pd
import pytest
from drain3.drain import Drain

from features.masking import mask
from features.settings import TemplateSettings
from features.tables import ModelError
from features.templates import Templates, mine


def frame(*texts: str) -> pd.DataFrame:
    return pd.DataFrame({"time": pd.date_range("2026-01-01", periods=len(texts), freq="s", tz="UTC"), "masked": texts})


def stock(texts: list[str], settings: TemplateSettings) -> list[tuple[str, int]]:
    drain = Drain(settings.depth, settings.similarity, settings.max_children, settings.max_clusters)
    for text in texts:
        drain.add_log_message(text)
    clusters = sorted(drain.clusters, key=lambda cluster: cluster.cluster_id)
    return [(cluster.get_template(), cluster.size) for cluster in clusters]


def chatter(seed: int, lines: int = 3000) -> list[str]:
    """Lines of few words, so that clusters meet, merge and take each other's lines."""
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(list("abcdef"), draw.integers(1, 7))) for _ in range(lines)]


@pytest.mark.parametrize("seed", range(4))
def test_clusters_equal_drain3s_on_the_same_lines(seed: int) -> None:
    settings = TemplateSettings()
    found = mine(frame(*chatter(seed)), settings)
    assert list(zip(found.texts, found.sizes, strict=True)) == stock(chatter(seed), settings)


@pytest.mark.parametrize("most", [1, 3, 20])
def test_clusters_equal_drain3s_when_old_ones_are_forgotten(most: int) -> None:
    settings = TemplateSettings(max_clusters=most, similarity=0.7, max_children=4)
    found = mine(frame(*chatter(7)), settings)
    assert list(zip(found.texts, found.sizes, strict=True)) == stock(chatter(7), settings)
    assert len(found.texts) <= most


def test_the_order_of_arrival_does_not_matter() -> None:
    lines = frame(*chatter(1, 500))
    lines["time"] = lines["time"].dt.floor("5s")
    assert mine(lines) == mine(lines[::-1]) == mine(lines.sample(frac=1, random_state=3))


def test_an_unseen_line_is_unknown_and_a_seen_one_keeps_its_template() -> None:
    found = mine(frame("a b c", "link up", "link up"))
    before = found.to_json()
    assert found.match(pd.Series(["a b c", "a b d", "zz yy xx ww", "link up", ""])).tolist() == [0, -1, -1, 1, -1]
    assert found.to_json() == before


def test_of_several_fitting_templates_the_one_with_fewest_wildcards_counts() -> None:
    found = Templates(TemplateSettings(), ("<*> <*>", "link <*>", "<*> up"), (1, 1, 1), ("", "", ""))
    assert found.match(pd.Series(["link up", "link down", "x up", "x y"])).tolist() == [1, 1, 2, 0]


def test_rows_of_another_table_are_matched_anew() -> None:
    found = Templates(TemplateSettings(), ("up", "down"), (1, 1), ("", ""))
    first, second = (pd.Series(texts, dtype="category") for texts in (["up", "down", "x"], ["x", "down", "up"]))
    assert found.match(first).tolist() == [0, 1, -1]
    assert found.match(first.iloc[1:]).tolist() == [1, -1]
    assert found.match(second.cat.set_categories(["x", "up", "down"])).tolist() == [-1, 1, 0]


def test_every_mined_line_is_known_afterwards() -> None:
    lines = frame(*chatter(2))
    assert (mine(lines).match(lines["masked"]) >= 0).all()


def test_json_gives_back_the_same_templates() -> None:
    lines = frame(*chatter(5))
    found = mine(lines)
    again = Templates.from_json(found.to_json())
    assert again == found
    assert np.array_equal(again.match(lines["masked"]), found.match(lines["masked"]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '{"py/reduce":[{"py/function":"os.system"},{"py/tuple":["touch X"]}]}',
        mine(frame("a b")).to_json()[:-5],
        mine(frame("a b")).to_json().replace('"sizes":[1]', '"sizes":[]'),
        mine(frame("a b")).to_json().replace('"sizes":[1]', '"sizes":["1"]'),
        mine(frame("a b")).to_json().replace('"a b"', '" "'),
        mine(frame("a b")).to_json().replace("templates-1", "templates-9"),
        mine(frame("a b")).to_json().replace('"depth":5', '"depth":1'),
    ],
)
def test_json_that_is_not_ours_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="train again"):
        Templates.from_json(text)
    assert not list(tmp_path.iterdir())


def test_json_is_plain() -> None:
    assert orjson.loads(mine(frame("a b c d", "a b c e")).to_json())["texts"] == ["a b c <*>"]


def test_no_lines_give_no_templates() -> None:
    found = mine(frame())
    assert found.texts == ()
    assert found.match(pd.Series(["x"])).tolist() == [-1]


# Drain3 with its documented masks at its own defaults, and with the masks and parameters that
# https://github.com/logpai/logparser gives for each set: the better of the two.
STOCK_ACCURACY = {"BGL": 0.9685, "Linux": 0.69, "OpenStack": 0.7325}


@pytest.mark.parametrize("name", STOCK_ACCURACY)
def test_lines_are_grouped_no_worse_than_by_stock_drain3(name: str, real_data: Path) -> None:
    truth = pd.read_csv(real_data / "loghub" / f"{name}_2k.log_structured.csv", dtype="str")
    masked = mask(truth["Content"])
    found = mine(masked.to_frame("masked").assign(time=pd.date_range("2026-01-01", periods=len(masked), freq="s")))
    groups = pd.DataFrame({"found": found.match(masked), "true": truth["EventId"]})
    # grouping accuracy: the share of lines whose group holds the very lines of their true group
    pure = groups["found"].map(groups.groupby("found")["true"].nunique()) == 1
    whole = groups["true"].map(groups.groupby("true")["found"].nunique()) == 1
    assert (pure & whole).mean() >= STOCK_ACCURACY[name]


def test_of_a_flood_only_what_is_heard_most_is_mined() -> None:
    flood = [f"{a} {b} {a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    found = mine(frame(*flood, "link is down", "link is down"), TemplateSettings(max_texts=5))
    assert sum(found.sizes) == 4 + 2
    assert found.match(pd.Series(["link is down", "x y xy"])).tolist() == [len(found.texts) - 1, -1]
