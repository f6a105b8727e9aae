"""SLiCE against its recurrence step by step, and against torch-slices with the same weights."""

import pytest
import torch
from slices import StackedSLiCE

from statewise.errors import StatewiseError
from statewise.models import build_model
from statewise.models.baselines.slice import SliceTracker, affine_scan
from tests.models.agreement import assert_agree, shaken, tensors, words

SYMBOLS, CLASSES, WIDTH = 5, 4, 12


# the last two are taken by chunks
@pytest.mark.parametrize(("time", "size"), [(1, 3), (7, 1), (11, 5), (36, 1), (53, 3)])
def test_the_scan_is_its_recurrence(time, size):
    lanes = 6
    M, b, y = given = tensors((time, size, size, lanes), (time, size, lanes), (size, lanes))
    with torch.no_grad():
        # long products stay of their size
        M.mul_(0.3)
    states = []
    for t in range(time):
        y = torch.einsum("oil,il->ol", M[t], y) + b[t]
        states.append(y)
    fast = affine_scan(*given)
    assert_agree((fast, fast[-1]), (torch.stack(states), y), given)


def theirs(layers, block, parallel=False):
    """Return the network of torch-slices; tokens are increments of the path, and nothing is dropped."""
    made = StackedSLiCE(
        layers,
        SYMBOLS,
        WIDTH,
        CLASSES,
        block_size=block,
        use_parallel=parallel,
        dropout_rate=0.0,
        path_mode="increments",
    )
    return made.double()


@pytest.mark.parametrize("block", [1, 2, 4, 12])
@pytest.mark.parametrize("layers", [1, 3])
def test_slice_is_torch_slices(block, layers):
    ours, other = shaken(SliceTracker(SYMBOLS, CLASSES, WIDTH, block, layers), spread=0.1), theirs(layers, block)
    named = {
        name.replace("blocks.", "layers.").replace("readout.", "linear."): parameter
        for name, parameter in ours.named_parameters()
    }
    published = dict(other.named_parameters())
    assert named.keys() == published.keys()
    other.load_state_dict({name: parameter.detach() for name, parameter in named.items()})
    tokens = words(SYMBOLS)
    logits, states = ours.run(tokens, ours.init_state(len(tokens)))
    ends = []
    for layer in other.layers:
        layer.slice.register_forward_hook(lambda _module, _inputs, ys: ends.append(ys[:, -1]))
    answers = other(tokens)
    assert_agree((logits, *states), (answers, *ends), (list(named.values()), [published[name] for name in named]))


def test_blocks_must_divide_the_hidden_size():
    with pytest.raises(StatewiseError, match="divides its hidden size 12, got 5"):
        build_model("slice(5)", SYMBOLS, CLASSES, WIDTH)
    with pytest.raises(StatewiseError, match="needs the argument block"):
        build_model("slice", SYMBOLS, CLASSES, WIDTH)
    with pytest.raises(StatewiseError, match="one plain argument, its block"):
        build_model("slice(2, 2)", SYMBOLS, CLASSES, WIDTH)
