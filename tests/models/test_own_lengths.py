"""Classes that fail beyond some length, that share a name, or that are given as objects."""

import pytest
import torch
from torch import nn

import statewise as sw
from statewise.errors import ModelError, RunError


class Positions(nn.Module):
    """Learned positions, and no word of how many there are."""

    def __init__(self, symbols, classes, hidden):
        super().__init__()
        self.embed, self.places, self.read = (
            nn.Embedding(symbols, hidden),
            nn.Embedding(32, hidden),
            nn.Linear(hidden, classes),
        )

    def forward(self, tokens):
        places = self.places(torch.arange(tokens.shape[1]))
        return self.read(torch.tanh(self.embed(tokens) + places).cumsum(dim=1))


def test_a_class_that_fails_at_a_test_length_is_one_sentence_with_its_line(tmp_path):
    with pytest.raises(
        ModelError, match=r"Positions cannot read sequences of 500 symbols: IndexError.*line \d+.*longest"
    ):
        sw.train("parity", Positions, steps=2, hidden=8, out=tmp_path / "run")


def test_a_table_shows_how_far_such_a_class_reads():
    table = sw.compare("parity", [Positions], seeds=1, steps=2, hidden=8, lengths=[10, 20, 100])
    (row,) = table.to_dict()["rows"]
    assert set(row["scores"]) == {"10", "20"}
    assert "reads at most 20" in str(table)


def make(scale):
    class Scaled(Positions):
        def forward(self, tokens):
            return scale * super().forward(tokens)

    return Scaled


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(RunError, match="two different models are called"):
        sw.compare("parity", [make(1.0), make(2.0)], seeds=1, steps=2, hidden=8, lengths=[10])


def test_what_a_factory_closes_over_is_no_part_of_a_text():
    from statewise.models import source_hash

    assert source_hash(make(1.0)) is None
    assert source_hash(Positions) is not None
