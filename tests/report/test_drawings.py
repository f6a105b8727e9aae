"""Drawings mean what they show: axes reach as far as data, labels keep apart, arrows touch, numbers have one form."""

import math
import re

import numpy as np
import pytest
from matplotlib import pyplot

from statewise.papers import Cell, Row, Table, read_paper
from statewise.papers.rotations import PlaneRow, angles_of, plane_rows
from statewise.papers.verdicts import NOT_LEARNED
from statewise.report.angles import draw_angles
from statewise.report.charts import fixed, score_axis
from statewise.report.entries import read_entries
from statewise.report.heat import MARKS, heat_of
from statewise.report.networks import kept_network
from statewise.report.page import write_page
from statewise.report.panels import length_sheets
from statewise.report.paper_figures import write_planes
from statewise.report.portraits import draw_portraits
from statewise.store import Store
from tests.report.synthetic import full_weights, record_of, saved, untrained_weights
from tests.report.test_judged import record
from tests.report.test_page import Tags, options_of, page_of


def ticks_of(*scores):
    return [text for _, text in score_axis(scores).ticks]


def test_axes_of_scores_go_as_far_as_their_data_and_have_ticks_there():
    assert ticks_of() == ticks_of(0.3) == ticks_of(-0.06) == ["0", "0.5", "1"]
    assert ticks_of(-0.2) == ["−0.25", "0", "0.5", "1"]
    assert ticks_of(-0.45) == ["−0.5", "0", "0.5", "1"]
    assert ticks_of(-0.95, 1.0) == ["−1", "−0.5", "0", "0.5", "1"]
    for low in np.linspace(-1, 0, 41).tolist():
        axis = score_axis([low])
        assert axis.low < min(low, axis.ticks[0][0])
        assert axis.low > min(low, 0) - 0.25


def test_a_panel_has_room_below_0_only_for_its_own_curves():
    best, worst = ({"in_distribution": {"length": 10, "score": score}} for score in (1.0, -1.0))
    made = [record(-1.0), record(0.0, changed=best, model="rotation")]
    made.append(record(-1.0, changed=worst, model="rotation", lr=1e-5))
    (sheet,) = length_sheets(read_entries(made))
    assert [">−1<" in panel.charts[0] for panel in sheet.panels] == [True, False]


def test_numbers_have_two_digits_and_0_has_no_sign():
    assert [fixed(n) for n in (0.997, -0.001, -0.25, 1)] == ["1.00", "0.00", "−0.25", "1.00"]
    assert fixed(-3.0032, 3) == "−3.003"


def cell(**given):
    texts = dict.fromkeys(("where", "ceiling_reason", "note", "budget"), "")
    plain = {"task": "modular_addition(5)", "column": 5, "scores": (), "median": 0.0, "by_rate": {}, "published": 0.0}
    return Cell(**plain | texts | {"ceiling": 1.0} | given)


def table(one):
    rows = (Row("full", "full", "stated", (one,)),)
    return Table("table-addition", "Sums", "quick", (5,), rows, {"stated": read_paper().readings["stated"]})


def test_cells_that_were_not_learned_have_their_own_mark(tmp_path, monkeypatch):
    made = record(0.997)
    shown = table(cell(best=0.997, runs=(made.key,), verdict=NOT_LEARNED))
    heat = heat_of(shown, {entry.key: entry for entry in read_entries([made])})
    assert heat is not None
    assert (heat.rows[0].squares[0].mark, heat.counts[NOT_LEARNED]) == ("~", 1)
    assert len(set(MARKS.values())) == len(MARKS)
    monkeypatch.setattr("statewise.report.page.table_of", lambda *_: shown)
    monkeypatch.setattr("statewise.report.page.recorded", lambda *_: 1)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([made])
        write_page(store, tmp_path / "page.html", "quick")
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert '<span class="sign">~</span> not learned: the scores agree, but training lengths were not' in text
    assert 'aria-label="not learned" role="img">~<' in text
    # two digits in the cell, all of them where its seeds are
    assert re.search(r'class="ours"[^>]*>1\.00<', text)
    assert "<b>0.997</b> ours" in text
    assert 'done: 0.997">1.00</a>' in text
    assert "the median over these machines" in text


def test_a_cell_leads_to_a_run_of_its_rate():
    made = [record(score, lr=rate) for rate, score in ((0.1, 0.02), (0.01, -0.01), (0.001, 0.03))]
    entries = {entry.key: entry for entry in read_entries(made)}
    # by the median of three seeds, of which one is there; a run at another rate is nearer to it
    by_rate = {"0.1": (0.02,), "0.01": (-0.01, 0.04, 0.03), "0.001": (0.03,)}
    one = cell(best=0.03, by_rate=by_rate, scores=by_rate["0.01"], verdict=NOT_LEARNED, runs=tuple(entries))
    heat = heat_of(table(one), entries)
    assert heat.rows[0].squares[0].key == made[1].key


def figure4_of(tmp_path, turns):
    """Figure 4 of a network with one plane, which turns by so many tenths per symbol."""
    options = options_of(model="rotation", task="modular_addition(10)", hidden=2)
    weights = untrained_weights(options)
    weights["transition.weight"] = 2 * np.pi * turns / 10 * np.arange(10)[None]
    # of what is tracked the machine would be extracted too, which takes long of angles that fit no machine
    made = record_of(options, scores=[{"length": 500, "score": 0.5}])
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([made], {made.key: saved(weights)})
        rows = plane_rows([("trained", 0, angles_of(kept_network(store, made)))], 10)
        return draw_angles(store, read_entries([made])), rows


@pytest.mark.parametrize(("turns", "harmonic"), [(6.9968, -3.0032), (3.0, 3.0), (-2.0, -2.0), (4.997, 4.997)])
def test_harmonics_are_those_of_the_listed_planes(tmp_path, turns, harmonic):
    angles, rows = figure4_of(tmp_path, turns)
    assert angles.circles[0].harmonic == pytest.approx(harmonic, abs=1e-4)
    assert angles.circles[0].harmonic == pytest.approx(rows[0].harmonic, abs=1e-6)
    text = page_of(tmp_path / "store", tmp_path)
    assert f"harmonic <b>{fixed(rows[0].harmonic, 3)}</b>" in text
    assert "above −5 and at most 5" in text


def boxes(picture):
    """Where the labels of a circle lie, a little smaller than they are."""
    found = re.findall(r'<text x="(\S+)" y="(\S+)" text-anchor="(\w+)"[^>]*><title>[^<]*</title>([^<]*)<', picture)
    for across, up, anchor, text in found:
        width = 4.4 * len(text)
        left = float(across) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        yield left, float(up) - 5.5, left + width, float(up)


@pytest.mark.parametrize("turns", [1.0, 5.0, 4.997, 4.468, 1.777, 2.17, 0.01, 0.3, 0.17, 9.9])
def test_labels_of_symbols_keep_apart_and_off_the_dots(tmp_path, turns):
    angles, _ = figure4_of(tmp_path, turns)
    picture = str(angles.circles[0].picture)
    dots = [(float(x), float(y)) for x, y in re.findall(r'class="dot c0" cx="(\S+)" cy="(\S+)"', picture)]
    assert len(dots) == 10
    places = list(boxes(picture))
    assert places
    for one in places:
        assert one[0] >= -12
        assert one[2] <= 132
        for x, y in dots:
            across, up = min(max(x, one[0]), one[2]), min(max(y, one[1]), one[3])
            assert math.dist((x, y), (across, up)) > 2.5
        for other in places:
            apart = one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
            assert apart or one == other


def test_symbols_at_one_place_have_one_label(tmp_path):
    angles, _ = figure4_of(tmp_path, 4.997)
    assert re.findall(r"</title>([^<]*)</text>", str(angles.circles[0].picture)) == ["0 2 …", "1 3 …"]
    assert "together: 0 2 4 6 8, 1 3 5 7 9" in angles.circles[0].picture


def test_the_figure_of_planes_has_a_panel_for_each_stage_and_its_legend_outside(monkeypatch, tmp_path):
    shown = {"trained": [5.0, -3.0032], "polished": [-3.0]}
    rows = [
        PlaneRow(stage, 0, place, plane=place, angle=0.0, harmonic=h, character=0, off=0.0, weight=1.0)
        for stage, harmonics in shown.items()
        for place, h in enumerate(harmonics)
    ]
    kept = []
    monkeypatch.setattr(pyplot, "close", kept.append)
    try:
        files = write_planes(tmp_path, "planes", rows, 10)
        assert all(file.stat().st_size for file in files)
        for axes, harmonics in zip(kept[0].axes, shown.values(), strict=True):
            assert np.asarray(axes.collections[0].get_offsets())[:, 1].tolist() == pytest.approx(harmonics)
        last = kept[0].axes[-1]
        assert last.get_legend().get_window_extent().x0 >= last.get_window_extent().x1
    finally:
        monkeypatch.undo()
        pyplot.close("all")


def test_arrows_end_at_the_circle_of_their_state_and_point_at_it(tmp_path):
    task = "random_machine(5, seed=0, kind=permutation)"
    made = record(task=task)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([made], {made.key: full_weights(made.config)})
        (portrait,) = draw_portraits(store, read_entries([made]))
    picture = str(portrait.picture)
    states = re.findall(r'class="state[^"]*" cx="(\S+)" cy="(\S+)" r="(\S+)"><title>state (\w+),', picture)
    middles, size = {name: np.array([float(x), float(y)]) for x, y, _, name in states}, float(states[0][2])
    arrows = re.findall(r'<title>(\w+) on \w+ to (\w+)</title>.*?class="head" d="M(.*?)Z', picture)
    assert len(arrows) == 5 * len(portrait.drawn)
    assert any(source == target for source, target, _ in arrows)
    for _, target, head in arrows:
        left, tip, right = (np.array(point.split(), dtype=float) for point in head.split("L"))
        inward, along = middles[target] - tip, tip - (left + right) / 2
        assert np.linalg.norm(inward) == pytest.approx(size, abs=0.2)
        assert along @ inward / np.linalg.norm(along) / np.linalg.norm(inward) > 0.95
