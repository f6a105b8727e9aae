"""The delta rule by chunks, step by step, and in `transformers`; the models around it, with the same weights."""

import os
import warnings

import pytest
import torch
from torch.nn import functional as F

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore", module="transformers.*")

from transformers.models.olmo_hybrid import modeling_olmo_hybrid as published  # noqa: E402

from statewise.models.baselines import DeltaNetTracker, DeltaProductTracker, GatedDeltaNetTracker  # noqa: E402
from statewise.models.baselines.delta_rule import delta_rule, plain_delta_rule  # noqa: E402

SYMBOLS, CLASSES = 5, 4
pytestmark = pytest.mark.filterwarnings("ignore")
# chunks have 20 steps: less than one, one, and odd numbers of them
TIMES = [1, 7, 20, 45]


class InDouble:
    """The module torch with float64 under the name of float32, which the published rules compute in."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def in_double(monkeypatch):
    monkeypatch.setattr(published, "torch", InDouble())


def draw(rows, time, key, value, n=1, top=2.0, strongest=1.0):
    """Draw q, k, v, beta, decay and a first state; decays stand before the first step of each token."""
    made = torch.Generator().manual_seed(time)
    q, k, v, state = (
        torch.randn(*shape, generator=made, dtype=torch.float64)
        for shape in [(rows, time, key), (rows, time * n, key), (rows, time * n, value), (rows, key, value)]
    )
    beta, decay = (torch.rand(rows, size, generator=made, dtype=torch.float64) for size in (time * n, time))
    decay = F.pad(-strongest * decay.unsqueeze(-1), (0, n - 1)).flatten(1)
    parts = (F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, top * beta, decay, state)
    return [part.detach().requires_grad_() for part in parts]


def step_by_step(q, k, v, beta, decay, state):
    """Apply the equation to dense matrices, a step at a time."""
    n, outputs, identity = k.shape[1] // q.shape[1], [], torch.eye(k.shape[2], dtype=k.dtype)
    for i in range(k.shape[1]):
        key, size = k[:, i].unsqueeze(-1), beta[:, i, None, None]
        state = decay[:, i, None, None].exp() * (identity - size * key @ key.mT) @ state
        state = state + size * key @ v[:, i].unsqueeze(1)
        if (i + 1) % n == 0:
            outputs.append((q[:, i // n].unsqueeze(1) @ state).squeeze(1))
    return torch.stack(outputs, dim=1), state


def in_transformers(q, k, v, beta, decay, state, rule):
    """Call a rule of `transformers`, one head per row; it divides queries by the root of their size."""
    q, k, v, beta, decay = (part.unsqueeze(2) for part in (q * q.shape[-1] ** 0.5, k, v, beta, decay))
    given = {"g": decay, "beta": beta, "initial_state": state.unsqueeze(1), "output_final_state": True}
    o, last = rule(q, k, v, **given)
    return o.squeeze(2), last.squeeze(1)


def results(parts, o, last):
    """Return the outputs, the last state, and the gradient of every part."""
    return (o, last, *torch.autograd.grad(o.sin().sum() + last.cos().sum(), parts))


def stretch(q, k, v, beta, decay, state):
    """Return the same steps as tokens of one step, with a query at each."""
    return q.repeat_interleave(k.shape[1] // q.shape[1], dim=1), k, v, beta, decay, state


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("top", [1.0, 2.0])
def test_the_delta_rule_by_chunks_is_its_recurrence(time, n, top):
    parts = draw(5, time, 7, 6, n, top)
    torch.testing.assert_close(results(parts, *delta_rule(*parts)), results(parts, *step_by_step(*parts)))


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("n", [1, 3])
def test_without_decay_it_is_the_same_rule(time, n):
    q, k, v, beta, _, state = parts = draw(5, time, 7, 6, n, strongest=0.0)
    given = [q, k, v, beta, state]
    found = results(given, *plain_delta_rule(*given))
    torch.testing.assert_close(found, results(given, *step_by_step(*parts)))


@pytest.mark.parametrize("strongest", [0.0, 1.0, 200.0])
def test_decays_of_any_strength_are_safe(strongest):
    """A state that vanishes within a chunk leaves no infinity behind, in outputs or gradients."""
    parts = [part.detach().float().requires_grad_() for part in draw(3, 40, 5, 4, strongest=strongest)]
    torch.testing.assert_close(
        results(parts, *delta_rule(*parts)), results(parts, *step_by_step(*parts)), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("strongest", [0.0, 1.0])
@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("name", ["torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"])
def test_the_delta_rule_is_that_of_transformers(time, n, strongest, name):
    """Decay 0 is DeltaNet's rule; time stretched n-fold is DeltaProduct's.

    At batch 64 with 4 heads of 16, forward and backward, in CPU time of one core, ours against the published chunks:
    1.9 and 25 ms at length 10, 4.7 and 26 ms at 32, 10 and 27 ms at 64.
    """
    parts, rule = draw(5, time, 7, 6, n, strongest=strongest), getattr(published, name)
    o, last = in_transformers(*stretch(*parts), rule)
    torch.testing.assert_close(results(parts, *delta_rule(*parts)), results(parts, o[:, n - 1 :: n], last))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("negative", [False, True])
def test_deltanet_is_its_published_parts(layers, negative):
    """The whole model, with torch's convolution and the rule of `transformers` in place of ours."""
    ours = DeltaNetTracker(SYMBOLS, CLASSES, 12, layers, negative, heads=3).double()
    tokens = torch.randint(0, SYMBOLS, (3, 21), generator=torch.Generator().manual_seed(0))
    x = ours.embedding(tokens)
    for block in ours.blocks:
        mixer, normed = block.mixer, block.mixer_norm(x)
        qkv = F.pad(mixer.qkv_proj(normed).mT, (3, 0))
        qkv = F.silu(F.conv1d(qkv, mixer.conv1d.weight, groups=36)).mT
        q, k, v = (part.unflatten(-1, (3, 4)) for part in qkv.chunk(3, dim=-1))
        beta = mixer.b_proj(normed).sigmoid() * (2 if negative else 1)
        o, _ = published.torch_chunk_gated_delta_rule(
            q, k, v, g=torch.zeros_like(beta), beta=beta, use_qk_l2norm_in_kernel=True
        )
        x = x + mixer.output.o_proj(F.rms_norm(o, (4,), mixer.output.norm.weight, 1e-5).flatten(2))
        gate, up = block.mlp.gate_up_proj(block.mlp_norm(x)).chunk(2, dim=-1)
        x = x + block.mlp.down_proj(F.silu(gate) * up)
    found, expected = ours(tokens), ours.readout(ours.norm(x))
    torch.testing.assert_close(found, expected)
    weights = list(ours.parameters())
    a, b = (torch.autograd.grad(logits.sin().sum(), weights) for logits in (found, expected))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("negative", [False, True])
def test_gated_deltanet_is_that_of_transformers(negative):
    """The whole mixer, as OLMo Hybrid has it."""
    width, heads = 12, 3
    config = published.OlmoHybridConfig(
        hidden_size=width,
        linear_num_key_heads=heads,
        linear_num_value_heads=heads,
        linear_key_head_dim=width // heads,
        linear_value_head_dim=width // heads,
        linear_allow_neg_eigval=negative,
    )
    theirs = published.OlmoHybridGatedDeltaNet(config, 0)
    ours = GatedDeltaNetTracker(SYMBOLS, CLASSES, width, 1, negative, heads).blocks[0].mixer
    pairs = [(ours.conv1d, theirs.conv1d), (ours.b_proj, theirs.b_proj), (ours.decay.a_proj, theirs.a_proj)]
    pairs += [(getattr(ours.output, name), getattr(theirs, name)) for name in ("g_proj", "o_proj")]
    pairs = [(a.weight, b.weight) for a, b in [*pairs, (ours.output.norm, theirs.o_norm)]]
    pairs += [(ours.decay.A_log, theirs.A_log), (ours.decay.dt_bias, theirs.dt_bias)]
    separate = [theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight]
    with torch.no_grad():
        for mine, yours in pairs:
            yours.copy_(mine)
        for mine, yours in zip(ours.qkv_proj.weight.chunk(3), separate, strict=True):
            yours.copy_(mine)
    x = torch.randn(3, 21, width, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found, expected = ours(x, ours.init_state(3))[0], theirs(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    whole, *a = torch.autograd.grad(found.sin().sum(), [ours.qkv_proj.weight, x, *(mine for mine, _ in pairs)])
    b = torch.autograd.grad(expected.sin().sum(), [*separate, x, *(yours for _, yours in pairs)])
    torch.testing.assert_close((whole, *a), (torch.cat(b[:3]), *b[3:]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("negative", [False, True])
def test_one_householder_matrix_is_deltanet(negative):
    tokens = torch.randint(0, SYMBOLS, (3, 9), generator=torch.Generator().manual_seed(0))
    for gated, made in [(False, DeltaNetTracker), (True, GatedDeltaNetTracker)]:
        one = made(SYMBOLS, CLASSES, 12, negative=negative)
        product = DeltaProductTracker(SYMBOLS, CLASSES, 12, 1, negative=negative, gated=gated)
        product.load_state_dict(one.state_dict())
        assert torch.equal(product(tokens), one(tokens))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("gated", [False, True])
def test_deltaproduct_is_its_published_parts(n, gated):
    """The mixer, with torch's convolution, and the rule of `transformers` over time stretched n-fold."""
    width, heads = 12, 3
    mixer = DeltaProductTracker(SYMBOLS, CLASSES, width, n, gated=gated, heads=heads).blocks[0].mixer.double()
    x = torch.randn(3, 21, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    qkv = F.pad(mixer.qkv_proj(x).mT, (3, 0))
    qkv = F.silu(F.conv1d(qkv, mixer.conv1d.weight, groups=width * (1 + 2 * n))).mT
    q, k, v = qkv.split([width, n * width, n * width], dim=-1)
    # tokens become n steps: of each the keys, values and betas; the query is read at the last, the first decays
    k, v = (part.unflatten(-1, (n, heads, -1)).flatten(1, 2) for part in (k, v))
    q = q.unflatten(-1, (heads, -1)).repeat_interleave(n, dim=1)
    beta = 2 * mixer.b_proj(x).sigmoid().unflatten(-1, (n, heads)).flatten(1, 2)
    decay = torch.zeros(3, 21, n, heads, dtype=torch.float64)
    decay[:, :, 0] = mixer.decay(x)[0] if gated else 0.0
    o, last = published.torch_chunk_gated_delta_rule(
        q, k, v, g=decay.flatten(1, 2), beta=beta, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    expected = (mixer.output(o[:, n - 1 :: n], *mixer.output.enter(x)), last)
    output, (_, matrices) = mixer(x, mixer.init_state(3))
    found, given = (output, matrices), [x, *mixer.parameters()]
    torch.testing.assert_close(found, expected)
    a, b = (torch.autograd.grad(y.sin().sum() + s.cos().sum(), given) for y, s in (found, expected))
    torch.testing.assert_close(a, b)


def test_beta_above_one_is_another_model():
    positive, negative = (DeltaNetTracker(SYMBOLS, CLASSES, 12, 1, sign).double() for sign in (False, True))
    negative.load_state_dict(positive.state_dict())
    tokens = torch.randint(0, SYMBOLS, (3, 9), generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(positive(tokens), negative(tokens))
