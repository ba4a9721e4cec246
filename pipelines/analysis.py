"""How an analysis is kept: as a chapter of the HTML report, and as a run of its own in MLflow."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from models.tracking import Tracker
from pipelines import console
from pipelines.config import Config
from pipelines.experiment import dataset
from pipelines.store import Store

Row = Mapping[str, object]
WHY = "evidence"
Tables = Iterable[tuple[str, Sequence[Row]]]


class Shown(NamedTuple):
    """What a person sees of an analysis.

    Attributes
    ----------
    name
        Of the command; the chapter's id, and of the files of a run.
    result
        What ``--json`` prints: its ``sentences`` and ``cannot_say`` are shown.
    tables
        Titles and rows; an empty one is left out.
    pictures
        PNG files by name.
    """

    name: str
    title: str
    result: Mapping[str, Any]
    tables: Tables
    pictures: Mapping[str, bytes]


def section(shown: Shown) -> str:
    """A fragment of HTML that stands alone: sentences, figures, tables, what can't be said."""
    pictures = "".join(
        f'<img alt="{html.escape(name.rpartition(".")[0].replace("_", " "))}" style="width:100%" '
        f'src="data:image/png;base64,{base64.b64encode(data).decode()}">\n'
        for name, data in shown.pictures.items()
    )
    charts = f'<div class="charts">{pictures}</div>\n' if pictures else ""
    limits = shown.result["cannot_say"]
    return (
        f'<section id="{shown.name}">\n<h2>{html.escape(shown.title)}</h2>\n'
        f"{_list(shown.result['sentences'])}{charts}{''.join(_table(title, rows) for title, rows in shown.tables)}"
        f"{f'<h3>What cannot be said</h3>{chr(10)}{_list(limits)}' if limits else ''}</section>\n"
    )


def _table(title: str, rows: Sequence[Row]) -> str:
    """A table; what a row says under `WHY` has a line of its own below it, for a column of sentences is too narrow."""
    if not rows:
        return ""
    names = [name for name in rows[0] if name != WHY]
    numbers = {name for name in names if any(isinstance(row[name], int | float) for row in rows)}
    head = "".join(f"<th{_side(name, numbers)}>{html.escape(name)}</th>" for name in names)
    body = ""
    for row in rows:
        cells = "".join(f"<td{_side(name, numbers)}>{html.escape(_cell(row[name]))}</td>" for name in names)
        body += f"<tr>{cells}</tr>\n"
        if row.get(WHY):
            body += f'<tr class="why"><td colspan="{len(names)}"><div>{html.escape(str(row[WHY]))}</div></td></tr>\n'
    return f"<h3>{html.escape(title)}</h3>\n<table><tr>{head}</tr>\n{body}</table>\n"


def _side(name: str, numbers: set[str]) -> str:
    return ' class="n"' if name in numbers else ""


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else str(value)


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(line)}</li>\n" for line in lines) + "</ul>\n"


def png(figure: Figure, dpi: int = 130) -> bytes:
    """The figure as a PNG: the same bytes for the same data."""
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


def track(
    shown: Shown,
    config: Config,
    store: Store,
    experiment: str,
    *,
    metrics: Mapping[str, float | None],
    listed: tuple[str, Sequence[Row]] = ("", ()),
    tags: Mapping[str, str] | None = None,
    uri: str | None = None,
) -> str:
    """Log an analysis as a run of this experiment and give its id.

    Parameters
    ----------
    metrics
        Numbers to compare runs by.
    listed
        A name and rows that MLflow shows as a table.

    Raises
    ------
    UpstreamError
        MLflow can't be reached or refuses.
    UsageError
        Its address is of a kind that it no longer writes to.
    """
    tracker = Tracker(uri or config.tracking.uri, config.tracking.artifacts)
    said = {"analysis": shown.name, **(tags or {})}
    with tracker.start(experiment, f"{shown.name} {store.path.name}", tags=said, datasets=[dataset(store)]) as run:
        run.log(params=getattr(config, shown.name).model_dump(mode="json"), metrics=dict(metrics))
        pictures = {f"figures/{name}": picture for name, picture in shown.pictures.items()}
        page = section(shown).encode()
        run.files({f"{shown.name}.json": console.to_json(shown.result).encode(), f"{shown.name}.html": page} | pictures)
        name, rows = listed
        if rows:
            frame = pd.DataFrame([dict(row) for row in rows])
            run.table(frame.astype(object).where(frame.notna(), None).astype(str), f"{name}.json")
    return run.run_id
