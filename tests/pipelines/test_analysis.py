"""How an analysis is shown as a chapter of the report."""

from matplotlib.figure import Figure

from pipelines.analysis import Shown, png, section

SAID = {"sentences": ["Two <saves>."], "cannot_say": ["how long, because"]}


def shown(*tables: tuple[str, list[dict[str, object]]], pictures: dict[str, bytes] | None = None) -> str:
    return section(Shown("storage", "A & B", SAID, tables, pictures or {}))


def test_a_chapter_holds_its_sentences_and_what_cannot_be_said_as_text() -> None:
    page = shown()
    assert page.startswith('<section id="storage">\n<h2>A &amp; B</h2>')
    assert "<li>Two &lt;saves&gt;.</li>" in page
    assert page.index("What cannot be said") < page.index("how long, because")
    assert "charts" not in page


def test_evidence_has_a_line_of_its_own_below_its_row() -> None:
    first: dict[str, object] = {"event": "x", "seconds": 3.0, "evidence": "full & slow"}
    page = shown(("Longest", [first, {"event": "y", "seconds": None, "evidence": ""}]))
    assert '<tr class="why"><td colspan="2"><div>full &amp; slow</div></td></tr>' in page
    assert page.count('class="why"') == 1
    assert "<th>evidence" not in page


def test_numbers_stand_right_and_large_ones_have_no_exponent() -> None:
    page = shown(("T", [{"name": "a", "GB": 12345.6}, {"name": "b", "GB": 0.012345}]))
    assert '<td class="n">12,346</td>' in page
    assert '<td class="n">0.01235</td>' in page
    assert "<td>a</td>" in page


def test_a_table_without_rows_is_left_out() -> None:
    assert "Empty" not in shown(("Empty", []))


def test_pictures_stand_in_a_grid_with_words_for_who_cannot_see_them() -> None:
    page = shown(pictures={"saves_by_nodes.png": b"x"})
    assert '<div class="charts"><img alt="saves by nodes"' in page


def test_the_same_figure_gives_the_same_bytes() -> None:
    def drawn() -> bytes:
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([0, 1])
        return png(figure)

    assert drawn() == drawn()
