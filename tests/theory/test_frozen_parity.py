"""Proposition 3: two examples, every length, with probability 1 - 2^-H."""

import itertools
import json

import pytest
import torch

from statewise.errors import RunError
from statewise.theory.frozen_parity import fit_readouts, frequency, learned, track_parity, wilson
from tests.command import statewise


@pytest.mark.parametrize("hidden", [1, 2, 3, 4])
def test_every_sign_pattern_learns_unless_all_are_negative(hidden):
    signs = torch.tensor(list(itertools.product([1.0, -1.0], repeat=hidden)), dtype=torch.float64)
    right = learned(signs, fit_readouts(signs))
    assert right.tolist() == (signs > 0).any(dim=1).tolist()


def test_learned_means_correct_on_every_sequence_up_to_a_length():
    signs = torch.tensor([[1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]], dtype=torch.float64)
    readouts = fit_readouts(signs)
    for draw, succeeds in enumerate(learned(signs, readouts).tolist()):
        wrong = 0
        for length in range(1, 8):
            for bits in itertools.product([0, 1], repeat=length):
                h = torch.ones(3, dtype=torch.float64)
                for bit in bits:
                    h = signs[draw] * (1 - 2 * bit) * h
                wrong += (h @ readouts[draw] > 0) != (sum(bits) % 2 == 0)
        assert (wrong == 0) == succeeds


@pytest.mark.parametrize("hidden", [1, 3, 6])
def test_frequency_holds_the_prediction(hidden):
    found = frequency(hidden, 4_000, seed=0)
    # seven standard deviations: this fails by chance less than once in 10^11 runs
    spread = 7 * (found.predicted * (1 - found.predicted) / found.draws) ** 0.5
    assert abs(found.learned / found.draws - found.predicted) < spread
    assert found.low < found.learned / found.draws < found.high


def test_wilson_intervals_are_the_known_ones():
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-3)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)


def test_the_recurrence_tracks_long_sequences():
    assert track_parity(8, 20_000, 4, seed=1) == (4, 4)


def test_bad_sizes_are_refused():
    with pytest.raises(RunError, match="at least 1"):
        frequency(0, 10, 0)


@pytest.mark.timeout(600)
def test_the_command_prints_and_draws(tmp_path):
    plot = tmp_path / "p.png"
    done = statewise("demo-parity", "--draws", "500", "--length", "2000", "--plot", plot, "--json", timeout=600)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [row["hidden"] for row in result["rows"]] == list(range(1, 11))
    assert result["correct"] == result["words"]
    assert plot.stat().st_size > 5_000
    done = statewise("demo-parity", "--plot", "x.txt", timeout=600)
    assert done.returncode == 2
    assert ".png or .svg" in done.stderr
