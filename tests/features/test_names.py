import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric_name
from tsfresh.feature_extraction.settings import EfficientFCParameters, from_columns

from features import names
from features.tables import SchemaError

AWKWARD = [
    'm{le="+Inf"}',
    "a:b",
    "a,b",
    "gpu__temp",
    "temp_",
    "x/y z",
    "x-3A",
    "a.b",
    "___",
    "Größe",
    "a[0]",
    "%41",
    "_",
]


def test_an_ordinary_metric_name_stays_as_it_is() -> None:
    assert names.escape("DCGM_FI_DEV_GPU_TEMP") == "DCGM_FI_DEV_GPU_TEMP"


@pytest.mark.parametrize("metric", AWKWARD)
def test_an_awkward_name_comes_back_from_its_column(metric: str) -> None:
    column = names.column(metric, "gpu_max", "peer", calculator='linear_trend__attr_"slope"')
    assert names.split(column) == (metric, ("gpu_max", "peer"), 'linear_trend__attr_"slope"')


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
@settings(max_examples=200, deadline=None)
def test_any_text_comes_back_from_its_escaped_form(metric: str) -> None:
    kind = names.escape(metric)
    assert names.unescape(kind) == metric
    assert not set(kind) & set(' ,:."[]{}')
    assert "__" not in kind
    assert not kind.endswith("_")


def test_two_names_never_share_an_escaped_form() -> None:
    assert len({names.escape(metric) for metric in AWKWARD}) == len(AWKWARD)


def test_a_report_shows_the_name_of_the_source() -> None:
    column = names.column('m{le="+Inf"}', "gpu_max", calculator="mean")
    assert column == "m-7Ble-3D-22-2BInf-22-7D.gpu_max__mean"
    assert names.original(column) == 'm{le="+Inf"}.gpu_max__mean'


@pytest.mark.parametrize("column", ["mean", "__mean", "m__", "a:b__mean", "a-3__mean", "a-41__mean", "a-FF__mean"])
def test_a_name_outside_the_grammar_is_refused(column: str) -> None:
    with pytest.raises(SchemaError):
        names.split(column)


def test_a_column_without_a_calculator_is_refused() -> None:
    with pytest.raises(SchemaError, match="needs a metric and a calculator"):
        names.column("m", calculator="")


@pytest.mark.parametrize("metric", AWKWARD)
def test_tsfresh_reads_the_calculator_back(metric: str) -> None:
    column = names.column(metric, "gpu_max", calculator='linear_trend__attr_"slope"')
    kind = column.split("__")[0]
    assert from_columns([column]) == {kind: {"linear_trend": [{"attr": "slope"}]}}


def test_the_plain_form_of_every_tsfresh_column_comes_back() -> None:
    parts = ['linear_trend__attr_"slope"', "range_count__max_0__min_-1000000000000.0", "cwt__widths_(2, 5, 10, 20)"]
    columns = [names.column("a:b", calculator=part) for part in (*parts, *EfficientFCParameters())]
    assert [names.unplain(names.plain(column)) for column in columns] == columns


def test_lightgbm_and_mlflow_take_the_plain_form() -> None:
    columns = [names.plain(names.column(metric, calculator='linear_trend__attr_"slope"')) for metric in AWKWARD]
    for column in columns:
        _validate_metric_name(column)
    data = lightgbm.Dataset(np.zeros((4, len(columns))), [0, 1, 0, 1], feature_name=columns, params={"verbose": -1})
    assert data.construct().get_feature_name() == columns


def test_columns_are_kept_unless_an_expression_is_found_in_their_readable_name() -> None:
    columns = [names.column("phase", "now"), names.column("a:b", "peer"), names.column("history", "phase_of")]
    assert names.kept(columns, ()) == columns
    assert names.kept(columns, (r"^phase\.", r"a:b\.peer")) == columns[2:]
