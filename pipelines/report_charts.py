"""Coordinates of the report's drawings; the template turns them into inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#c98b2b", "#4f5d75", "#5aa9a3", "#a0522d")
BASELINE_COLOUR = "#7d8894"
_DASHES = ("6 3", "2 3", "9 3 2 3", "1 5", "12 4")  # baselines share a colour
_MARGIN = {"left": 40.0, "right": 10.0, "top": 8.0, "bottom": 32.0}
_TICK = 24.0  # labels of the x axis nearer than this would run into each other
_LINES = 6  # more models than this in one drawing can't be told apart


class Frame:
    """A drawing's plane: from data to pixels, with the margins that labels need.

    Parameters
    ----------
    x, y
        Lowest and highest value.
    width, height
        Of the drawing, in SVG user units.
    log
        Whether x is drawn by its logarithm.
    """

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], width: float, height: float, *, log: bool = False
    ) -> None:
        self.width, self.height, self.log = width, height, log
        self.x, self.y = x, y
        self.left, self.right = _MARGIN["left"], width - _MARGIN["right"]
        self.top, self.bottom = _MARGIN["top"], height - _MARGIN["bottom"]

    def px(self, value: float) -> float:
        """Where x lies from the left."""
        low, high, value = (math.log(v) if self.log else v for v in (*self.x, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.left + share * (self.right - self.left), 1)

    def py(self, value: float) -> float:
        """Where y lies from the top."""
        low, high = self.y
        share = (value - low) / (high - low) if high > low else 0.0
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        """An SVG polyline's points."""
        return " ".join(f"{self.px(x)},{self.py(y)}" for x, y in points)

    def ticks(self, x: Iterable[float], y: Iterable[float]) -> dict[str, Any]:
        """Size and marks."""
        return {
            "width": self.width,
            "height": self.height,
            "left": self.left,
            "right": self.right,
            "top": self.top,
            "bottom": self.bottom,
            "x_ticks": self._spaced(x),
            "y_ticks": [(self.py(value), f"{value:g}") for value in y],
        }

    def _spaced(self, x: Iterable[float]) -> list[tuple[float, str]]:
        """Marks of the x axis; one too near to the mark before it keeps its line and loses its label."""
        out: list[tuple[float, str]] = []
        last = -math.inf
        for value in x:
            at = self.px(value)
            out.append((at, f"{value:g}" if at - last >= _TICK else ""))
            last = at if out[-1][1] else last
        return out


def trade_off(
    models: Mapping[str, Mapping[str, Any]], order: Sequence[str], baselines: Iterable[str], key: str
) -> dict[str, Any] | None:
    """Lines of ``key`` (before or lead_minutes_median) over budgets, the first model strongest; None without a curve.

    At most six models: those in front of ``order``.
    """
    shown = list(order)[:_LINES]
    budgets = sorted({point["budget"] for name in shown for point in models[name]["curve"]})
    if len(budgets) < 2:
        return None
    values = [point[key] for name in shown for point in models[name]["curve"] if point[key] is not None]
    first = models[shown[0]]
    total = first["before"] + first["at"] + first["missed"]
    top = float(max(total, 1) if key == "before" else max([*values, 10.0]) * 1.05)
    frame = Frame((budgets[0], budgets[-1]), (0.0, top), 340, 230, log=True)
    weak, lines = [name for name in shown if name in set(baselines)], []
    for number, name in enumerate(shown):
        points = [(point["budget"], float(point[key])) for point in models[name]["curve"] if point[key] is not None]
        colour = BASELINE_COLOUR if name in weak else COLOURS[number % len(COLOURS)]
        dots = [(frame.px(x), frame.py(y)) for x, y in points]
        lines.append(
            {
                "name": name,
                "colour": colour,
                "dash": _DASHES[weak.index(name) % len(_DASHES)] if name in weak else "",
                "points": frame.path(points),
                "dots": dots,
                "strong": number == 0,
            }
        )
    return {**frame.ticks(budgets, nice(top)), "lines": lines[::-1], "legend": lines}


def timeline(failure: Mapping[str, Any], horizon: float) -> dict[str, Any] | None:
    """A failure's scores by minutes from its first line; None when its node was not scored around it."""
    points = [(float(minute), float(score)) for minute, score in failure["points"]]
    if not points:
        return None
    low, high = min(-horizon, points[0][0]), max(0.0, points[-1][0])
    level = float(failure["threshold"])
    frame = Frame((low, high), (0.0, 1.05), 520, 180)
    step = 60.0 if high - low > 240 else 30.0
    marks = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    runs: list[list[tuple[float, float]]] = [[]]
    for place, point in enumerate(points):
        if place and point[0] - points[place - 1][0] > 15:  # a hole in the data is no line
            runs.append([])
        runs[-1].append(point)
    return {
        **frame.ticks(marks, (0, 0.5, 1)),
        "runs": [frame.path(run) for run in runs if len(run) > 1],
        "over": [(frame.px(x), frame.py(y)) for x, y in points if y > level],
        "under": [(frame.px(x), frame.py(y)) for x, y in points if y <= level],
        "threshold": frame.py(min(level, 1.05)),
        "warning": (frame.px(max(low, -horizon)), frame.px(0.0)),
        "zero": frame.px(0.0),
    }


def nice(top: float) -> list[float]:
    """At most six round marks from 0 to the top."""
    step = 10.0 ** math.floor(math.log10(top)) if top > 0 else 1.0
    for factor in (0.2, 0.5, 1.0, 2.0, 5.0):
        if top / (step * factor) <= 5 and (factor * step >= 1 or top < 2):
            step *= factor
            break
    return [round(step * number, 6) for number in range(int(top / step) + 1)]
