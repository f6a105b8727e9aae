import math

import numpy as np
import pytest

from statewise.errors import UnknownNameError
from statewise.papers import read_paper
from statewise.papers.facts import facts_of, parity, planes, propositions

PAPER = read_paper()


def test_parameters_are_those_of_the_formulas() -> None:
    rows = facts_of(PAPER, "parameters", "quick")
    assert {row["model"]: row["paper"] for row in rows}["full"] == 256**3
    assert all(row["holds"] for row in rows)


def test_the_propositions_hold_where_they_are_checked() -> None:
    rows = propositions()
    assert {row["proposition"] for row in rows} == {1, 2, 3}
    assert all(row["holds"] for row in rows), [row for row in rows if not row["holds"]]
    assert all(row["how"] for row in rows)


def test_frequencies_of_parity_are_near_what_is_predicted() -> None:
    for row in parity(2_000):
        assert row["paper"] == 1 - 2.0 ** -row["hidden"]
        assert abs(row["frequency"] - row["paper"]) < 0.05


def test_what_takes_runs_is_no_fact() -> None:
    for name in ("figure2", "nothing"):
        with pytest.raises(UnknownNameError):
            facts_of(PAPER, name, "quick")


def test_harmonics_are_angles_in_parts_of_a_turn_the_heaviest_first() -> None:
    m = 10
    angles = 2 * math.pi / m * np.outer([13.0, -1.0, 0.5, 7.25], np.arange(m))
    readout = np.repeat([[0.5, 2.0, 1.0, 0.25]], 2, axis=1) * np.ones((m, 1))
    rows = planes([(7, {"model.transition.weight": angles, "model.readout": readout})], m)
    assert [row["plane"] for row in rows] == [1, 2, 0, 3]
    assert [row["harmonic"] for row in rows] == pytest.approx([-1, 0.5, 3, -2.75])
    assert [row["character"] for row in rows][::2] == [9, 3]
    assert [row["off"] for row in rows] == pytest.approx([0, 0.5, 0, 0.25], abs=1e-9)
    assert {row["seed"] for row in rows} == {7}
