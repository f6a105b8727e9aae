"""mLSTM against the recurrence and the network of `transformers`, with the same weights."""

import os
import warnings
from unittest.mock import patch

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore", module="transformers.*")

# its own code, also where the package xlstm is installed, which it would hand out instead
with patch("transformers.utils.is_xlstm_available", return_value=False):
    from transformers.models.xlstm.configuration_xlstm import xLSTMConfig
    from transformers.models.xlstm.modeling_xlstm import mlstm_recurrent_sequence_native as published_recurrence
    from transformers.models.xlstm.modeling_xlstm import xLSTMBlock

from statewise.errors import StatewiseError  # noqa: E402
from statewise.models import build_model  # noqa: E402
from statewise.models.baselines.mlstm import MLSTMTracker, mlstm_chunks  # noqa: E402
from tests.models.agreement import assert_agree, shaken, tensors, words  # noqa: E402

SYMBOLS, CLASSES, WIDTH, HEADS = 5, 4, 12, 3
pytestmark = pytest.mark.filterwarnings("ignore")
# where theirs is in ours
NAMES = {
    "norm_mlstm.weight": "norm_1.weight",
    "norm_ffn.weight": "norm_2.weight",
    "mlstm_layer.q.weight": "mlstm.q.weight",
    "mlstm_layer.k.weight": "mlstm.k.weight",
    "mlstm_layer.v.weight": "mlstm.v.weight",
    "mlstm_layer.ogate_preact.weight": "mlstm.o.weight",
    "mlstm_layer.igate_preact.weight": "mlstm.i.weight",
    "mlstm_layer.igate_preact.bias": "mlstm.i.bias",
    "mlstm_layer.fgate_preact.weight": "mlstm.f.weight",
    "mlstm_layer.fgate_preact.bias": "mlstm.f.bias",
    "mlstm_layer.multihead_norm.weight": "mlstm.norm",
    "mlstm_layer.out_proj.weight": "mlstm.out.weight",
    "ffn.proj_down.weight": "mlp.down_proj.weight",
}
# two of theirs are halves of one of ours
HALVES, WHOLE = ("ffn.proj_up_gate.weight", "ffn.proj_up.weight"), "mlp.gate_up_proj.weight"


@pytest.mark.parametrize("time", [1, 63, 64, 70])
def test_chunks_are_the_recurrence(time):
    """Against the published step, one at a time."""
    batch, keys, values = 2, 5, 4
    rows = [(batch, HEADS, time, size) for size in (keys, keys, values)]
    gates, states = (batch, HEADS, time), [(batch, HEADS, keys, values), (batch, HEADS, keys)]
    given = tensors(*rows, gates, gates, *states)
    q, k, v, i, f, C, n = given
    m = torch.zeros(batch, HEADS, dtype=torch.float64)
    h, state = mlstm_chunks(q, k, v, i, f, (C, n, m))
    slow, (C, n, m) = published_recurrence(
        q, k, v, i, f, C, n, m.unsqueeze(-1), return_last_states=True, eps=0.0, dtype_state=torch.float64
    )
    assert_agree((h, *state), (slow, C, n, m.squeeze(-1)), given)


@pytest.mark.parametrize("layers", [1, 2])
def test_mlstm_is_that_of_transformers(layers):
    config = xLSTMConfig(
        hidden_size=WIDTH,
        num_heads=HEADS,
        num_hidden_layers=layers,
        qk_dim_factor=1.0,
        ffn_proj_factor=8 / 3,
        ffn_round_up_to_multiple_of=1,
        gate_soft_cap=1e8,
        norm_reduction_force_float32=False,
        chunkwise_kernel="chunkwise--native_autograd",
        sequence_kernel="native_sequence__native",
        step_kernel="native",
        mode="train",
        chunk_size=13,
        return_last_states=True,
        eps=0.0,
    )
    model, tokens = shaken(MLSTMTracker(SYMBOLS, CLASSES, WIDTH, layers, HEADS)), words(SYMBOLS, time=26)
    theirs = [xLSTMBlock(config).double() for _ in range(layers)]
    x, ours, published, ends = model.embedding(tokens), [], [], []
    for block, other in zip(model.blocks, theirs, strict=True):
        mine = dict(block.named_parameters())
        assert {name for name, _ in other.named_parameters()} == {*NAMES, *HALVES}
        assert mine.keys() == {*NAMES.values(), WHOLE}
        copied = {own: weight.detach().clone().requires_grad_() for own, weight in mine.items()}
        ours += mine.values()
        published += copied.values()
        given = {name: copied[own] for name, own in NAMES.items()}
        given |= dict(zip(HALVES, copied[WHOLE].chunk(2), strict=True))
        x, (C, n, m) = torch.func.functional_call(other, given, (x,))
        ends += [C, n, m.squeeze(-1)]
    answers = model.readout(model.norm(x))
    logits, states = model.run(tokens, model.init_state(len(tokens)))
    assert_agree((logits, *(part for state in states for part in state)), (answers, *ends), (ours, published))


def test_heads_are_checked():
    with pytest.raises(StatewiseError, match="mlstm needs a hidden size that its 5 heads divide, got 12"):
        build_model("mlstm(heads=5)", SYMBOLS, CLASSES, WIDTH)
