import math

import numpy as np
import pytest
import torch

from statewise.errors import UnknownNameError
from statewise.models import build_model
from statewise.papers import read_paper
from statewise.papers.facts import ParameterCount, facts_of, parity, propositions
from statewise.papers.rotations import Angles, angles_of, plane_rows

PAPER = read_paper()


def test_parameters_are_those_of_the_formulas() -> None:
    rows = [row for row in facts_of(PAPER, "parameters", "quick") if isinstance(row, ParameterCount)]
    expected = {row.model: row.paper for row in rows}
    assert expected["full"] == 256**3
    assert expected["cp(64)"] == 64 * 3 * 256
    assert expected["block(8)"] == 8 * 8 * 256 * 32
    assert expected["rotation"] == 128 * 256
    assert all(row.holds and not row.contradicted for row in rows)


def test_the_propositions_hold_where_they_are_checked() -> None:
    rows = propositions()
    assert {row.proposition for row in rows} == {1, 2, 3}
    assert all(row.holds for row in rows), [row for row in rows if not row.holds]
    assert all(row.how for row in rows)


def test_frequencies_of_parity_are_near_what_is_predicted() -> None:
    for row in (fact.to_dict() for fact in parity(2_000)):
        assert row["paper"] == 1 - 2.0 ** -row["hidden"]
        assert abs(row["frequency"] - row["paper"]) < 0.05


def test_what_takes_runs_is_no_fact() -> None:
    for name in ("figure2", "nothing"):
        with pytest.raises(UnknownNameError):
            facts_of(PAPER, name, "quick")


def test_harmonics_are_angles_in_parts_of_a_turn_the_heaviest_first() -> None:
    m = 10
    angles = 2 * math.pi / m * np.outer([13.0, -1.0, 0.5, 7.25], np.arange(m))
    rows = plane_rows([("trained", 7, Angles(angles, np.array([0.5, 2.0, 1.0, 0.25])))], m)
    assert [row.plane for row in rows] == [1, 2, 0, 3]
    assert [row.harmonic for row in rows] == pytest.approx([-1, 0.5, 3, -2.75])
    assert [row.character for row in rows][::2] == [9, 3]
    assert [row.off for row in rows] == pytest.approx([0, 0.5, 0, 0.25], abs=1e-9)
    assert {row.seed for row in rows} == {7}


@pytest.mark.parametrize("embedding", [0, 3])
def test_angles_are_those_by_which_each_symbol_turns_each_plane(embedding: int) -> None:
    model = build_model("rotation", 5, 5, 4, seed=1, embedding=embedding)
    angles = angles_of(model)
    assert angles is not None
    state = model.init_state(5)
    before = state[0].detach().unflatten(1, (2, 2))
    after = model.advance(torch.arange(5)[:, None], state)[1][0].detach().unflatten(1, (2, 2))
    turned = torch.atan2(after[..., 1], after[..., 0]) - torch.atan2(before[..., 1], before[..., 0])
    apart = turned.T.numpy() - angles.by_plane
    assert np.cos(apart) == pytest.approx(np.ones((2, 5)), abs=1e-6)
    readout = model.readout.detach().numpy()
    assert angles.weights == pytest.approx([np.linalg.norm(readout[:, :2]), np.linalg.norm(readout[:, 2:])])
    assert angles_of(build_model("full", 5, 5, 4)) is None
