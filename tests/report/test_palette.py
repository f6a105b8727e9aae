"""Curves are distinct to every eye: by colours, which are computed from the style sheet, and by marks."""

import itertools
import re

import numpy as np
import pytest
from matplotlib import pyplot

from statewise.papers import Cell, Row, Table, read_paper
from statewise.papers.verdicts import ABOVE, AGREES, NOT_RUN
from statewise.report import palette
from statewise.report.charts import Key, Line, degrees, draw_chart, kinds, log_axis, score_axis
from statewise.report.entries import read_entries
from statewise.report.panels import learning_sheets, length_sheets
from statewise.report.paper_figures import write_figure, write_readings
from statewise.report.paper_tables import draw_table
from tests.report.test_judged import record

# Machado, Oliveira and Fernandes 2009, at full severity, on linear red, green and blue
VISION = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
SCHEMES = ["light", "dark"]


def rgb(colour):
    return np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])


def linear(colour):
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def lab(colours, vision):
    """What an eye sees of colours, in CIE Lab."""
    seen = np.clip(linear(np.asarray(colours)) @ np.asarray(VISION[vision]).T, 0, 1) @ XYZ.T / XYZ.sum(1)
    bent = np.where(seen > (6 / 29) ** 3, np.cbrt(seen), seen / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * bent[:, 1] - 16, 500 * (bent[:, 0] - bent[:, 1]), 200 * (bent[:, 1] - bent[:, 2])], axis=-1)


def distances(colours, vision):
    return [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(lab(colours, vision), 2)]


def contrast(one, other):
    low, high = sorted(float(linear(colour) @ XYZ[1]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def colours_of(letter, scheme):
    """The colours of a kind of class, and of the card below them, from the style sheet itself."""
    style = palette._style()
    found = re.findall(rf"\.{letter}\d \{{ --own: light-dark\((#\w{{6}}), (#\w{{6}})\); \}}", style)
    (card,) = re.findall(r"--card: light-dark\((#\w{6}), (#\w{6})\)", style)
    place = SCHEMES.index(scheme)
    return [rgb(both[place]) for both in found], rgb(card[place])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISION)
def test_kinds_are_far_apart_for_every_eye(scheme, vision):
    colours, card = colours_of("c", scheme)
    assert len(colours) == palette.KINDS
    assert min(distances(colours, vision)) >= 13
    # most charts have few kinds
    assert min(distances(colours[:3], vision)) >= 20
    # learning curves let some of the card through
    (through,) = re.findall(r"\.sheet \.faint\S* \{ stroke-opacity: ([\d.]+); \}", palette._style())
    assert min(distances([float(through) * c + (1 - float(through)) * card for c in colours], vision)) >= 10


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISION)
def test_degrees_fall_in_lightness_and_are_apart_for_every_eye(scheme, vision):
    colours, _ = colours_of("q", scheme)
    assert len(colours) == palette.DEGREES
    assert min(distances(colours, vision)) >= 11
    assert (-np.diff(lab(colours, vision)[:, 0])).min() >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("letter", ["c", "q"])
def test_curves_stand_out_from_their_card(letter, scheme):
    colours, card = colours_of(letter, scheme)
    assert min(contrast(colour, card) for colour in colours) >= 3


def outlines(picture, kind):
    """The outlines of marks, by class and without their place."""
    found = re.findall(rf'class="{kind}(?: open)? ([cq]\d)" d="M\S+ [\d.]+(m[^"]+)"', str(picture))
    openings = re.findall(rf'class="{kind}( open)? ([cq]\d)"', str(picture))
    return [(colour, outline, bool(is_open)) for (colour, outline), (is_open, _) in zip(found, openings, strict=True)]


def chart(*lines):
    return draw_chart(lines, log_axis([1, 100]), score_axis([0.0]), "a chart")


@pytest.mark.parametrize("classes", [kinds(8), degrees(6)])
def test_every_class_has_a_mark_of_its_own_in_charts_and_legends(classes):
    few = [(1.0, 0.0), (10.0, 1.0), (100.0, 0.5)]
    lines = [outlines(chart(Line(few, colour)), "point") for colour in classes]
    assert [len(marks) for marks in lines] == [3] * len(classes)
    own = [marks[0][1:] for marks in lines]
    assert len(set(own)) == len(classes)
    assert [outlines(Key(colour, "text").picture, "point")[0][1:] for colour in classes] == own
    dots = [outlines(chart(Line(few, colour, kind="dots")), "dot") for colour in classes]
    assert len({marks[0][1:] for marks in dots}) == len(classes)


def test_curves_with_many_points_have_one_mark_and_not_at_the_same_place():
    many = [(float(1 + place), 0.5) for place in range(50)]
    places = set()
    for colour in kinds(8):
        picture = str(chart(Line(many, colour)))
        assert len(outlines(picture, "point")) == 1
        places |= set(re.findall(r'class="point[^"]*" d="M(\S+)', picture))
        assert outlines(chart(Line(many, colour, kind="faint")), "point") == []
        assert len(outlines(chart(Line(many, colour, kind="faint", marked=True)), "point")) == 1
    assert len(places) == 8


def test_marks_lie_on_curves():
    picture = str(chart(Line([(1.0, 0.0), (100.0, 1.0)], "c0"), Line([(1.0, 1.0), (100.0, 0.0)], "c1")))
    assert picture.rindex('class="line') < picture.index('class="point')


def test_learning_curves_are_marked_and_seeds_behind_their_median_are_not():
    entries = read_entries([record(seed=seed, lr=rate) for seed in (0, 1) for rate in (0.1, 0.01)])
    (learning,), (lengths,) = learning_sheets(entries), length_sheets(entries)
    assert {colour for colour, _, _ in outlines(learning.panels[0].charts[0], "point")} == {"c0", "c1"}
    seeds = str(lengths.panels[0].charts[0]).count('class="faint')
    assert seeds == 2
    assert len(outlines(lengths.panels[0].charts[0], "point")) == len(entries[0].scores)


def test_figures_have_the_colours_of_the_light_page_and_marks_of_the_same_shapes():
    light, _ = colours_of("c", "light")
    assert [rgb(colour).tolist() for colour in palette.light_kinds()] == [colour.tolist() for colour in light]
    assert len({(one["marker"], one["markerfacecolor"] == "white") for one in map(palette.line_style, range(8))}) == 8
    assert palette.line_style(8) == palette.line_style(0)
    assert len(palette.light_scale()) == 11


def cell(column, best, published, verdict, ceiling):
    texts = dict.fromkeys(("where", "ceiling_reason", "note", "budget", "task"), "")
    return Cell(
        **texts,
        column=column,
        best=best,
        scores=(),
        median=best,
        by_rate={},
        published=published,
        ceiling=ceiling,
        verdict=verdict,
    )


def table(columns, column="m"):
    first = cell(columns[0], None, 1.0, NOT_RUN, 1.0)
    cells = (first, *(cell(m, 0.77, 0.66, ABOVE, None) for m in columns[1:]))
    lstm = tuple(cell(m, 0.0, None, AGREES, 1.0) for m in columns)
    rows = (
        Row("full bilinear", "full", "stated", cells),
        Row("full bilinear", "full", "normalised", cells),
        Row("a model with a long name, maps", "cp(8)", "stated", lstm[:1]),
        Row("LSTM", "lstm", "stated", lstm),
        Row("GRU", "gru", "stated", (cell(columns[0], None, None, NOT_RUN, None),)),
    )
    published = {("full", m): 1.0 if m == columns[0] else 0.66 for m in columns}
    readings = {name: read_paper().readings[name] for name in ("stated", "normalised")}
    name = "table-addition"
    return Table(name, "Modular addition", "quick", tuple(columns), rows, readings, published=published, column=column)


NAMED = ["addition 5", "permutations 10", "S5"]


@pytest.mark.parametrize("columns", [[2], [2, 3], [2, 3, 5, 10, 25, 50], list(range(2, 14)), NAMED])
def test_a_picture_of_a_table_has_all_its_words_inside_and_apart(columns):
    figure, axes = pyplot.subplots(layout="constrained")
    try:
        draw_table(table(columns))(axes)
        figure.canvas.draw()
        texts = [text for text in axes.texts if text.get_text()]
        boxes = [text.get_window_extent() for text in texts]
        for text, box in zip(texts, boxes, strict=True):
            assert box.x0 >= 0, text
            assert box.y0 >= 0, text
            assert box.x1 <= figure.bbox.x1, text
            assert box.y1 <= figure.bbox.y1, text
        overlaps = [
            (a.get_text(), b.get_text())
            for (a, one), (b, other) in itertools.combinations(zip(texts, boxes, strict=True), 2)
            if one.overlaps(other)
        ]
        assert overlaps == []
    finally:
        pyplot.close(figure)


def test_a_picture_of_a_table_shows_the_paper_and_every_reading_of_what_was_run():
    figure, axes = pyplot.subplots()
    try:
        draw_table(table([2, 3]))(axes)
        shown = [text.get_text() for text in axes.texts]
        # the paper's line stands once, above both readings of the only model that has one
        assert shown.count("the paper") == 1
        assert (shown.count("0.66"), shown.count("1.00"), shown.count("0.77")) == (1, 1, 2)
        assert shown.count("not run") == 2
        assert (shown.count("its protocol to the letter"), shown.count("cross-entropy")) == (2, 1)
        assert shown.count("its protocol, state normalised in training") == 1
        assert "LSTM" in shown
        assert "GRU" not in shown
    finally:
        pyplot.close(figure)


def test_the_same_table_gives_the_same_bytes(tmp_path):
    drawn = table([2, 3, 5])
    for draw in (
        lambda out: write_figure(out, "table", draw_table(drawn)),
        lambda out: write_readings(out, "curves", drawn),
    ):
        first, second = (draw(tmp_path / name) for name in ("first", "second"))
        assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
