import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from statewise import BilinearRNN
from statewise.errors import InputError, StatewiseError, TransitionError

D, H, B, T = 5, 6, 3, 9
LEVELS = ["full", "cp(4)", "block(2)", "block(3)", "rotation", "diagonal", "positive"]
STACKS = [{}, {"num_layers": 2}, {"num_layers": 3, "norm": True, "residual": True}]


def build(spec="full", seed=0, dtype=torch.float64, **options):
    return BilinearRNN(D, H, transition=spec, dtype=dtype, generator=torch.Generator().manual_seed(seed), **options)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


every_level = pytest.mark.parametrize("spec", LEVELS)
every_stack = pytest.mark.parametrize("stack", STACKS, ids=["one", "two", "three"])


@every_level
@every_stack
@pytest.mark.parametrize("additive", ["none", "constant", "input"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_whole_chunked_and_stepwise_runs_agree_for_every_split(spec, stack, additive, dtype, tolerance):
    rnn = build(spec, additive=additive, dtype=dtype, **stack)
    x = draw(B, T, D, dtype=dtype)
    whole, end = rnn(x)
    scale = whole.abs().max().item()
    state, steps = rnn.init_state(B), []
    for t in range(T):
        y, state = rnn.step(x[:, t], state)
        steps.append(y)
    close = {"rtol": 0, "atol": tolerance * max(1.0, scale)}
    torch.testing.assert_close(torch.stack(steps, dim=1), whole, **close)
    torch.testing.assert_close(state, end, **close)
    for split in range(T + 1):
        first, middle = rnn(x[:, :split])
        second, last = rnn(x[:, split:], middle)
        torch.testing.assert_close(torch.cat([first, second], dim=1), whole, **close)
        torch.testing.assert_close(last, end, **close)


@given(st.lists(st.integers(0, T), max_size=5), st.sampled_from(LEVELS))
@settings(max_examples=30)
def test_chunks_of_any_sizes_agree(cuts, spec):
    rnn, x = build(spec), draw(B, T, D)
    whole, end = rnn(x)
    bounds = [0, *sorted(cuts), T]
    state, pieces = None, []
    for begin, stop in itertools.pairwise(bounds):
        piece, state = rnn(x[:, begin:stop], state)
        pieces.append(piece)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole)
    torch.testing.assert_close(state, end)


def test_shapes_are_those_of_lstm():
    for batch_first in (True, False):
        lstm = torch.nn.LSTM(D, H, num_layers=2, batch_first=batch_first)
        rnn = BilinearRNN(D, H, num_layers=2, batch_first=batch_first)
        for shape in [(B, T, D), (T, D), (1, 1, D)]:
            theirs, (h_theirs, _) = lstm(torch.randn(shape))
            ours, h_ours = rnn(torch.randn(shape))
            assert ours.shape == theirs.shape
            assert h_ours.shape == h_theirs.shape


def test_time_first_and_single_sequences_are_the_same_run():
    rnn, x = build(num_layers=2), draw(B, T, D)
    whole, end = rnn(x)
    rnn.batch_first = False
    along, end_along = rnn(x.transpose(0, 1))
    torch.testing.assert_close(along.transpose(0, 1), whole)
    torch.testing.assert_close(end_along, end)
    one, end_one = rnn(x[0], rnn.init_state(1)[:, 0])
    torch.testing.assert_close(one, whole[0])
    torch.testing.assert_close(end_one, end[:, 0])


@pytest.mark.parametrize("shape", [(0, 4, D), (2, 0, D), (0, 0, D), (0, D)])
def test_empty_batches_and_sequences(shape):
    rnn = build()
    output, state = rnn(torch.zeros(shape, dtype=torch.float64))
    assert output.shape == (*shape[:-1], H)
    if shape == (2, 0, D):
        torch.testing.assert_close(state, rnn.init_state(2))


@every_level
@every_stack
def test_lengths_give_each_row_as_if_alone(spec, stack):
    rnn, x = build(spec, **stack), draw(4, T, D)
    lengths = [3, 0, T, 1]
    x[0, 3:] = float("nan")
    x[1] = float("inf")
    output, state = rnn(x, lengths=lengths)
    assert not torch.isnan(output).any()
    for row, length in enumerate(lengths):
        alone, end = rnn(x[row : row + 1, :length])
        torch.testing.assert_close(output[row : row + 1, :length], alone)
        torch.testing.assert_close(state[:, row : row + 1], end)
        assert not output[row, length:].any()
    output.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in rnn.parameters() if p.grad is not None)
    as_tensor, _ = rnn(x, lengths=torch.tensor(lengths))
    assert torch.equal(as_tensor, output)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_packed_sequences_stay_packed(batch_first, enforce_sorted):
    rnn = build(num_layers=2, batch_first=batch_first)
    lstm = torch.nn.LSTM(D, H, num_layers=2, batch_first=batch_first, dtype=torch.float64)
    sizes = [9, 5, 5, 2] if enforce_sorted else [5, 9, 2, 5]
    sequences = [draw(size, D, seed=size + i) for i, size in enumerate(sizes)]
    packed = pack_sequence(sequences, enforce_sorted=enforce_sorted)
    h0 = draw(2, 4, H)
    output, state = rnn(packed, h0)
    theirs, (h_theirs, _) = lstm(packed)
    assert isinstance(output, PackedSequence)
    assert torch.equal(output.batch_sizes, theirs.batch_sizes)
    assert (output.sorted_indices is None) == (theirs.sorted_indices is None)
    assert state.shape == h_theirs.shape
    padded, lengths = pad_packed_sequence(output, batch_first=True)
    assert lengths.tolist() == sizes
    for row, sequence in enumerate(sequences):
        alone, end = rnn(sequence, h0[:, row])
        torch.testing.assert_close(padded[row, : sizes[row]], alone)
        torch.testing.assert_close(state[:, row], end)


def test_packing_equals_lengths():
    rnn, x = build(), draw(4, T, D)
    lengths = torch.tensor([3, 1, 9, 4])
    output, state = rnn(x, lengths=lengths)
    packed, packed_state = rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    torch.testing.assert_close(pad_packed_sequence(packed, batch_first=True)[0], output)
    torch.testing.assert_close(packed_state, state)


@every_level
@pytest.mark.parametrize("additive", ["none", "constant", "input"])
def test_gradcheck_and_double_backward(spec, additive):
    rnn = BilinearRNN(
        2, 6, transition=spec, additive=additive, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    x, h0 = draw(2, 3, 2).requires_grad_(), draw(1, 2, 6, seed=1).requires_grad_()
    lengths = torch.tensor([3, 2])

    def run(x, h0, *parameters):
        named = dict(zip(dict(rnn.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(rnn, named, (x, h0, lengths))

    everything = (x, h0, *rnn.parameters())
    assert torch.autograd.gradcheck(run, everything)
    few = (x, h0)
    assert torch.autograd.gradgradcheck(lambda x, h0: rnn(x, h0, lengths), few)


def test_gradients_reach_states_given_and_trained():
    rnn = build(num_layers=2)
    h0 = draw(2, B, H).requires_grad_()
    _, state = rnn(draw(B, T, D), h0)
    state.sum().backward()
    assert h0.grad.abs().sum() > 0
    rnn(draw(B, T, D))[0].sum().backward()
    assert rnn.initial_state.grad.abs().sum() > 0


def test_copies_and_state_dicts_round_trip():
    rnn, x = build("cp(4)", num_layers=2, norm=True), draw(B, T, D)
    expected = rnn(x)[0]
    assert torch.equal(copy.deepcopy(rnn)(x)[0], expected)
    other = build("cp(4)", seed=5, num_layers=2, norm=True)
    assert not torch.equal(other(x)[0], expected)
    other.load_state_dict(rnn.state_dict())
    assert torch.equal(other(x)[0], expected)
    assert torch.equal(build("cp(4)", num_layers=2, norm=True)(x)[0], expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_keeps_the_recurrence_in_full_precision(dtype):
    rnn, before = build(dtype=torch.float32), torch.nn.Linear(D, D)
    x = draw(B, T, D, dtype=torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        low = before(x)
        output, state = rnn(low)
        stepped, _ = rnn.step(low[:, 0], rnn.init_state(B))
        rnn.normalised(low)
    assert low.dtype == dtype
    assert output.dtype == state.dtype == torch.float32
    torch.testing.assert_close(output, rnn(low.float())[0])
    torch.testing.assert_close(stepped, output[:, 0])


@every_level
def test_vmap_over_parameters_is_a_loop_over_networks(spec):
    networks = [build(spec, seed=seed, num_layers=2) for seed in range(3)]
    x, lengths = draw(B, T, D), torch.tensor([9, 0, 4])
    parameters, buffers = torch.func.stack_module_state(networks)

    def run(parameters, buffers):
        return torch.func.functional_call(networks[0], (parameters, buffers), (x, None, lengths))[0]

    together = torch.func.vmap(run)(parameters, buffers)
    for network, output in zip(networks, together, strict=True):
        torch.testing.assert_close(output, network(x, lengths=lengths)[0])


@every_stack
def test_normalised_runs_rescale_the_plain_ones(stack):
    rnn, x = build("block(2)", normalise=False, **stack), draw(B, T, D)
    if len(stack) == 1:
        with pytest.raises(InputError, match="norm=True"):
            rnn.normalised(x)
        return
    lengths = [9, 0, 4]
    plain, end = rnn(x, lengths=lengths)
    (unit, log_norm), (last, last_log) = rnn.normalised(x, lengths=lengths)
    torch.testing.assert_close(unit * log_norm.exp().unsqueeze(-1), plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(last * last_log.exp().unsqueeze(-1), end, rtol=1e-5, atol=1e-6)
    rnn.batch_first = False
    (along, log_along), _ = rnn.normalised(x.transpose(0, 1), lengths=lengths)
    torch.testing.assert_close(along.transpose(0, 1), unit)
    torch.testing.assert_close(log_along.transpose(0, 1), log_norm)


def test_a_norm_between_layers_makes_scale_meaningless():
    rnn = BilinearRNN(2, 2, "diagonal", num_layers=2, normalise=False, norm=True, dtype=torch.float64)
    x = torch.ones(1, 60, 2, dtype=torch.float64)
    with torch.no_grad():
        rnn.layers[0].weight.fill_(0.25)
        plain, _ = rnn(x)
        (unit, log_norm), _ = rnn.normalised(x)
    torch.testing.assert_close(unit * log_norm.exp().unsqueeze(-1), plain, rtol=1e-9, atol=0)


def test_dropout_acts_between_layers_in_training_only():
    rnn, x = build(num_layers=2, dropout=0.5), draw(B, T, D)
    assert not torch.equal(rnn(x)[0], rnn(x)[0])
    rnn.eval()
    assert torch.equal(rnn(x)[0], rnn(x)[0])
    assert torch.equal(rnn(x)[0], build(num_layers=2)(x)[0])


def test_residual_adds_the_layers_input_where_sizes_agree():
    rnn = BilinearRNN(H, H, num_layers=2, residual=True, normalise=False, dtype=torch.float64)
    x = draw(B, T, H)
    first, second = rnn.transitions
    from statewise.recurrence import unroll

    state = rnn.init_state(B)
    inner, _ = unroll(first, x, state[0])
    torch.testing.assert_close(rnn(x)[0], unroll(second, inner + x, state[1])[0])


def test_frozen_layers_train_nothing_recurrent():
    rnn = build("diagonal(init=tokens, frozen=true)")
    assert not any(parameter.requires_grad for parameter in rnn.parameters())


BAD_LAYERS = [
    ({"hidden_size": 0}, "hidden_size of at least 1, got 0"),
    ({"input_size": 0}, "input_size of at least 1"),
    ({"hidden_size": 7, "transition": "rotation"}, "even hidden size, got 7"),
    ({"hidden_size": 7, "transition": "block(2)"}, "2 divides, got 7"),
    ({"transition": "fulll"}, 'did you mean "full"'),
    ({"additive": "inputs"}, 'did you mean "input"'),
    ({"num_layers": 0}, "num_layers is 0"),
    ({"dropout": 1.0}, "dropout is 1.0"),
    ({"dropout": -0.1}, "dropout is -0.1"),
    ({"dtype": torch.int64}, "floating type"),
    ({"dtype": "float32"}, "floating type"),
    ({"transition": 2}, "num_layers and other options by keyword"),
    ({"additive": None}, "got None"),
    ({"dropout": "a"}, "dropout is 'a'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_LAYERS)
def test_bad_layers_get_one_clear_sentence(arguments, message):
    with pytest.raises(StatewiseError, match=message) as caught:
        _unchecked(BilinearRNN.__new__(BilinearRNN), "__init__")(**({"input_size": D, "hidden_size": H} | arguments))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, TransitionError | ValueError)


BAD_INPUTS = [
    (((B, T, D + 1),), {}, r"5 entries last, got shape \(3, 9, 6\)"),
    (((D,),), {}, "needs inputs"),
    (((1, B, T, D),), {}, "needs inputs"),
    (((B, T, D), (1, B, H + 1)), {}, r"state h0 of shape \(1, 3, 6\), got \(1, 3, 7\)"),
    (((B, T, D), (B, H)), {}, "state h0"),
    (((T, D), (1, 1, H)), {}, "state h0"),
    (((B, T, D),), {"lengths": [1, 2]}, "3 whole numbers"),
    (((B, T, D),), {"lengths": [1, 2, T + 1]}, "lengths holds 10; expected 0 to 9"),
    (((B, T, D),), {"lengths": [1, 2, -1]}, "lengths holds -1"),
    (((B, T, D),), {"lengths": torch.tensor([0.5, 1.0, 1.0])}, "whole numbers"),
]


@pytest.mark.parametrize(("shapes", "options", "message"), BAD_INPUTS)
def test_bad_inputs_get_one_clear_sentence(shapes, options, message):
    tensors = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    with pytest.raises(InputError, match=message) as caught:
        build()(*tensors, **options)
    assert "\n" not in str(caught.value)


def test_other_mistakes_at_the_layers_door():
    rnn = build()
    with pytest.raises(InputError, match=r"weights are of torch.float64, got a tensor of torch.float32"):
        rnn(torch.zeros(B, T, D))
    for state in [(rnn.init_state(B), rnn.init_state(B)), [3, 5, 1]]:
        with pytest.raises(InputError, match="one state, a tensor"):
            _unchecked(rnn)(draw(B, T, D), state)
    with pytest.raises(InputError, match="padded"):
        _unchecked(rnn, "normalised")(pack_sequence([draw(3, D)]))
    with pytest.raises(InputError, match="lengths must be"):
        _unchecked(rnn)(draw(B, T, D), None, [None, 3, 1])
    with pytest.raises(InputError, match="0 or more"):
        rnn.init_state(-1)
    with pytest.raises(InputError, match=r"float64, got a tensor of torch.float32"):
        rnn.step(draw(B, D, dtype=torch.float32), rnn.init_state(B))
    with pytest.raises(InputError, match="carries its lengths"):
        rnn(pack_sequence([draw(3, D)]), lengths=[3])
    with pytest.raises(InputError, match=r"\[batch, 5\]"):
        rnn.step(draw(B, D + 1), rnn.init_state(B))
    with pytest.raises(InputError, match="use init_state"):
        rnn.step(draw(B, D), rnn.init_state(B + 1))


def _unchecked(rnn, method="forward"):
    """The method without the type checks that stand before it only while tests run."""
    function = getattr(type(rnn), method)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return lambda *arguments, **options: function(rnn, *arguments, **options)
