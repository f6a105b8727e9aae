"""C headers are compiled without a warning, and answer as the machine or the network does."""

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError
from statewise.export.c_header import c_name, machine_header, network_header, run_header
from statewise.models import StateTracker
from tests import needs
from tests.catalogues import LEVELS

RANDOM = np.random.default_rng(0)


def words_of(symbols, lengths=(1, 2, 7, 60)):
    return [RANDOM.integers(0, symbols, length).tolist() for length in lengths]


@pytest.fixture(autouse=True)
def compiler():
    needs.program("cc", "gcc")


@pytest.mark.parametrize(
    "expression",
    ["parity", "symmetric(5)", "flip_flop(4)", "random_machine(300, symbols=3, seed=1)", "random_machine(1)"],
)
def test_tables_answer_as_machines_do(expression):
    m = sw.machine(expression)
    words = words_of(m.symbols)
    given = run_header(machine_header(m, "m", "as it is"), "m", words)
    assert given.tolist() == [int(m.answer(word[: t + 1])) for word in words for t in range(len(word))]


def test_any_names_can_be_written():
    strange = ['a"b\\', "é??/", "*/", "\t", "%d"]
    m = sw.Machine([[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]], alphabet=strange, output_names=["/*", "//"], name="*/ x \\")
    header = machine_header(m, c_name("1 té.h"), "says */ and\nmore")
    assert run_header(header, c_name("1 té.h"), [[0, 1, 2]]).tolist() == [1, 1, 0]
    assert c_name("1 té.h") == "machine_1_t_h"
    assert c_name("Net-2") == "net_2"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spec", LEVELS)
def test_networks_give_the_directions_of_their_logits(spec, dtype):
    source = sw.machine("cyclic(5)")
    model = StateTracker(5, 5, 6, spec, embedding=3, generator=torch.Generator().manual_seed(1)).to(dtype)
    words = words_of(5, (1, 2, 12))
    given = run_header(network_header(model, source, "net", ""), "net", words, logits=True)
    with torch.no_grad():
        expected = torch.cat([model(torch.tensor([word]))[0] for word in words]).double()
    found = torch.from_numpy(given).view_as(expected)
    unit = [torch.nn.functional.normalize(each, dim=-1) for each in (found, expected)]
    assert (unit[0] - unit[1]).abs().max() <= (1e-5 if dtype == torch.float32 else 1e-12)


def test_networks_of_whole_numbers_are_exact_over_long_words():
    run = sw.compile("symmetric(4)", run=10)
    words = words_of(run.machine.symbols, (2_000,))
    given = run_header(network_header(run.model, run.machine, "net", ""), "net", words)
    assert given.tolist() == run.machine.outputs[run.machine.track(words[0])].tolist()


def test_states_that_vanish_or_overflow_end():
    source = sw.machine("parity")
    for scale in (0.0, 1e-30, 1e30):
        model = StateTracker(2, 2, 4, "full", generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            for weight in model.transition.parameters():
                weight *= scale
        header = network_header(model, source, "net", "")
        assert len(run_header(header, "net", [[0, 1] * 50])) == 100


def test_networks_that_are_no_products_are_refused():
    with pytest.raises(NetworkError, match="additive term"):
        network_header(StateTracker(2, 2, 4, "full", "input"), sw.machine("parity"), "net", "")
    with pytest.raises(NetworkError, match="more than a C header should hold"):
        network_header(StateTracker(2, 2, 1_024, "full"), sw.machine("parity"), "net", "")
