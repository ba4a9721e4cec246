"""One model leads and the others confirm."""

import numpy as np
import pandas as pd

from models.blend import Blend
from models.scorers import squash

END = pd.date_range("2026-01-01", periods=2000, freq="5min", tz="UTC")
INDEX = pd.MultiIndex.from_arrays([["a"] * 2000, END])
LABEL = np.zeros(2000)
LABEL[[500, 501, 1000, 1001, 1500, 1501]] = 1
NOISE = np.random.default_rng(0).exponential(0.5, (2000, 2))
SEES = NOISE[:, 0] + 8 * LABEL


def opinions(first: np.ndarray, second: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"first": squash(first), "second": squash(second)}, index=INDEX)


def test_the_model_that_sees_the_known_warnings_leads() -> None:
    blind = NOISE[:, 1]
    assert Blend().fit(opinions(blind, SEES), LABEL).parts_.argmax() == 1
    assert Blend().fit(opinions(SEES, blind), LABEL).parts_.argmax() == 0


def test_a_model_that_sees_only_a_little_more_than_the_first_does_not_lead() -> None:
    two_of_three = NOISE[:, 1] + 8 * LABEL * (np.arange(2000) < 1200)
    assert Blend().fit(opinions(two_of_three, SEES), LABEL).parts_.argmax() == 0


def test_without_labels_and_without_warnings_the_first_leads() -> None:
    both = opinions(NOISE[:, 1], SEES)
    assert Blend().fit(both).parts_.argmax() == 0
    assert Blend().fit(both, np.zeros(2000)).parts_.argmax() == 0


def test_a_confirmed_opinion_scores_higher_than_a_lone_one() -> None:
    fitted = Blend().fit(opinions(SEES, SEES), LABEL)
    asked = pd.DataFrame({"first": squash(np.array([4.0, 4.0])), "second": squash(np.array([0.0, 4.0]))})
    lone, confirmed = fitted.score(asked)
    assert confirmed > lone > 0.5


def test_a_single_model_keeps_its_score() -> None:
    alone = pd.DataFrame({"only": squash(SEES)}, index=INDEX)
    assert np.allclose(Blend().fit(alone, LABEL).score(alone), alone["only"])


def test_a_model_that_catches_nothing_confirms_nothing() -> None:
    fitted = Blend().fit(opinions(SEES, NOISE[:, 1]), LABEL)
    assert fitted.parts_.tolist() == [1, 0]
    assert Blend().fit(opinions(SEES, SEES), LABEL).parts_.tolist() == [0.8, 0.2]
