"""Habits of nn.LSTM's users: two directions, zeros as h0, (h, c), dropout, bias, proj_size."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from statewise import BilinearRNN
from statewise.errors import InputError, TransitionError

LEVELS = ["full", "cp(5)", "block(2)", "rotation", "diagonal", "positive"]


def both_ways(transition="full", **options):
    torch.manual_seed(0)
    return BilinearRNN(3, 4, transition=transition, bidirectional=True, dtype=torch.float64, **options)


def one_way(rnn, place):
    """A layer of one direction with the weights of one recurrence."""
    one = BilinearRNN(rnn.layers[place].input_size, 4, transition=rnn.transition, dtype=torch.float64)
    one.layers[0].load_state_dict(copy.deepcopy(rnn.layers[place].state_dict()))
    with torch.no_grad():
        one.initial_state.copy_(rnn.initial_state[place : place + 1])
    return one


@pytest.mark.parametrize("transition", LEVELS)
def test_two_directions_are_two_layers_side_by_side(transition):
    rnn, x = both_ways(transition), torch.randn(5, 7, 3, dtype=torch.float64)
    output, h_n = rnn(x)
    there, h_there = one_way(rnn, 0)(x)
    back, h_back = one_way(rnn, 1)(x.flip(1))
    torch.testing.assert_close(output, torch.cat([there, back.flip(1)], dim=-1))
    torch.testing.assert_close(h_n + 0, torch.cat([h_there, h_back]))


def test_layouts_are_those_of_an_lstm():
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=False)
    rnn = BilinearRNN(3, 4, num_layers=2, bidirectional=True, batch_first=False)
    x = torch.randn(7, 5, 3)
    output, h_n = rnn(x)
    expected, (h, _) = lstm(x)
    assert output.shape == expected.shape
    assert h_n.shape == h.shape


def test_each_row_is_read_back_from_its_own_end():
    rnn, x, lengths = both_ways(num_layers=2, norm=True), torch.randn(4, 6, 3, dtype=torch.float64), [6, 0, 3, 1]
    for row, length in enumerate(lengths):
        x[row, length:] = float("nan")
    output, h_n = rnn(x, lengths=lengths)
    for row, length in enumerate(lengths):
        alone, h_alone = rnn(x[row : row + 1, :length])
        torch.testing.assert_close(output[row, :length], alone[0])
        torch.testing.assert_close(h_n[:, row], h_alone[:, 0])
        assert (output[row, length:] == 0).all()


def test_packed_sequences_go_both_ways_too():
    rnn, x, lengths = both_ways(), torch.randn(3, 6, 3, dtype=torch.float64), [2, 6, 4]
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    output, h_n = rnn(packed)
    expected, h_expected = rnn(x, lengths=lengths)
    torch.testing.assert_close(pad_packed_sequence(output, batch_first=True)[0], expected)
    torch.testing.assert_close(h_n + 0, h_expected + 0)


def test_gradients_reach_both_directions():
    rnn, x = both_ways(), torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rnn(x, lengths=[5, 3])[0], (x,))
    rnn(x)[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in rnn.parameters())


def test_both_ways_cannot_go_step_by_step():
    rnn = both_ways()
    with pytest.raises(InputError, match="reads both ways; build it without bidirectional"):
        rnn.step(torch.randn(2, 3, dtype=torch.float64), rnn.init_state(2))
    with pytest.raises(InputError, match="reads both ways"):
        rnn.normalised(torch.randn(2, 5, 3, dtype=torch.float64))


def test_zeros_as_the_initial_state_are_refused():
    rnn, x = BilinearRNN(3, 4), torch.randn(2, 5, 3)
    with pytest.raises(InputError, match=r"h0 of zeros.*init_state\(batch\)"):
        rnn(x, torch.zeros(1, 2, 4))
    # a term that is added to the state makes zeros a state like any other
    added, _ = BilinearRNN(3, 4, additive="input")(x, torch.zeros(1, 2, 4))
    assert added.any()
    rows = torch.zeros(1, 2, 4)
    rows[0, 1] = 1.0
    assert rnn(x, rows)[0][1].any()


def test_two_last_states_are_not_mistaken_for_h_and_c():
    rnn, x = BilinearRNN(3, 4, num_layers=2), torch.randn(2, 5, 3)
    with pytest.raises(TypeError, match=r"one state, not \(h, c\)"):
        _, (_h, _c) = rnn(x)
    _, h_n = rnn(x)
    first, second = h_n.unbind()
    assert type(first) is torch.Tensor
    assert type(h_n * 1.0) is torch.Tensor
    again, _ = rnn(x, h_n)
    again.sum().backward()
    assert second.shape == (2, 4)
    assert copy.deepcopy(h_n.detach()).shape == h_n.shape


def test_dropout_of_one_layer_is_warned_about_as_an_lstm_does():
    with pytest.warns(UserWarning, match="between layers, and num_layers is 1"):
        BilinearRNN(3, 4, dropout=0.5)


@pytest.mark.parametrize(
    ("options", "words"), [({"bias": True}, 'additive="constant"'), ({"proj_size": 2}, r"nn\.Linear\(4, 2\)")]
)
def test_what_is_missing_says_what_to_use(options, words):
    with pytest.raises(TransitionError, match=words):
        BilinearRNN(3, 4, **options)


def test_a_transition_that_is_a_value_has_one_direction():
    value = BilinearRNN(3, 4).transitions[0]
    with pytest.raises(TransitionError, match="one recurrence"):
        BilinearRNN(3, 4, transition=value, bidirectional=True)
