"""Layers that keep their states at one size: no length overflows or vanishes, and nothing else changes."""

import hashlib
import json
import warnings

import pytest
import torch

from statewise import BilinearRNN

LEVELS = ["full", "cp(5)", "block(2)", "block(3)", "rotation", "diagonal", "positive"]


def build(spec, normalise=True, dtype=torch.float64, **options):
    generator = torch.Generator().manual_seed(0)
    return BilinearRNN(5, 6, spec, normalise=normalise, dtype=dtype, generator=generator, **options)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("spec", LEVELS)
def test_outputs_are_directions_of_the_plain_product(spec):
    x = draw(3, 9, 5)
    plain, h = build(spec, normalise=False)(x, lengths=[9, 4, 1])
    unit, last = build(spec)(x, lengths=[9, 4, 1])
    for found, product in ((unit[0], plain[0]), (last, h)):
        expected = product / product.square().mean(dim=-1, keepdim=True).sqrt()
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("additive", ["none", "input"])
@pytest.mark.parametrize("spec", LEVELS)
def test_whole_chunked_and_stepwise_runs_agree(spec, additive):
    rnn, x = build(spec, additive=additive, num_layers=2, residual=True), draw(3, 7, 5)
    whole, end = rnn(x)
    first, state = rnn(x[:, :3])
    second, state = rnn(x[:, 3:], state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state + 0, end + 0)
    state = rnn.init_state(3)
    for t in range(7):
        y, state = rnn.step(x[:, t], state)
        torch.testing.assert_close(y, whole[:, t])


@pytest.mark.parametrize("additive", ["none", "input"])
@pytest.mark.parametrize("spec", LEVELS)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_no_length_and_no_scale_of_inputs_leaves_the_range(spec, additive, scale):
    rnn = build(spec, additive=additive, dtype=torch.float32)
    # its gains are exponentials of inputs: those of 10,000 are no numbers of the type
    scale = min(scale, 10.0) if spec == "positive" else scale
    x = (draw(2, 300, 5, dtype=torch.float32) * scale).requires_grad_()
    output, _ = rnn(x)
    torch.testing.assert_close(output.square().mean(dim=-1), torch.ones(2, 300), rtol=1e-3, atol=1e-3)
    output.sum().backward()
    assert x.grad.isfinite().all()


def test_the_stack_that_overflowed():
    x = draw(1, 2_000, 5, dtype=torch.float32) * 3
    with pytest.warns(UserWarning, match="overflowed.*normalise=True"):
        assert not build("diagonal", normalise=False, dtype=torch.float32)(x)[0].isfinite().all()
    with pytest.warns(UserWarning, match="vanished.*normalise=True"):
        build("diagonal", normalise=False, dtype=torch.float32)(x / 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build("diagonal", None, dtype=torch.float32, num_layers=3)(x)[0].isfinite().all()


def test_deep_layers_normalise_unless_told_otherwise():
    assert not BilinearRNN(3, 4).normalise
    assert BilinearRNN(3, 4, normalise=True).normalise
    assert BilinearRNN(3, 4, num_layers=2).normalise
    assert not BilinearRNN(3, 4, num_layers=2, normalise=False).normalise


def test_a_deep_layer_saved_before_the_option_is_built_without_it(tmp_path):
    rnn = BilinearRNN(3, 4, num_layers=2, normalise=False)
    rnn.save_pretrained(tmp_path / "layer")
    config, manifest = tmp_path / "layer" / "config.json", tmp_path / "layer" / "manifest.json"
    before, listed = json.loads(config.read_text()), json.loads(manifest.read_text())
    del before["arguments"]["normalise"]
    config.write_text(json.dumps(before))
    listed["sha256"]["config.json"] = hashlib.sha256(config.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(listed))
    again = BilinearRNN.from_pretrained(tmp_path / "layer")
    assert not again.normalise
    x = torch.ones(1, 5, 3)
    assert torch.equal(again(x)[0], rnn(x)[0])
