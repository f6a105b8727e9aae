"""Numbers at the edge of float32: the kernels, torch and float64 agree from 1e-39 to 1e30, gradients included.

Where the exact result is larger than any number, all of them give one that is not finite, at the same places.
"""

import pytest
import torch

from statewise.errors import InputError
from statewise.models import BilinearRNN
from statewise.recurrence.rotation import _rotated_states
from tests.catalogues import need_kernels

# a layer says so where its states overflow or vanish
pytestmark = pytest.mark.filterwarnings("ignore:a hidden state")

LEVELS = ["full", "cp(3)", "block(2)", "block(4)", "block(8)", "rotation", "diagonal", "positive"]
# of h0, of the weights, of the gradient that arrives
SCALES = [
    (1e-39, 1, 1),
    (1e-38, 1, 1),
    (1e-30, 1, 1),
    (1e-20, 1, 1),
    (1e-20, 1, 1e-20),
    (1e-20, 1, 1e-25),
    (1e-30, 1, 1e-30),
    (1, 1, 1e-39),
    (1e30, 1, 1),
    (1, 1, 1e30),
    (1e30, 1, 1e-20),
    (1, 1e-20, 1),
    (1, 1e-39, 1),
    (1, 1e30, 1),
    (1e30, 1e30, 1),
    (1e30, 1e-15, 1),
]
SMALLEST = torch.finfo(torch.float32).tiny


def draw(generator, *shape):
    """Return numbers that float32 holds, in float64."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def computed(level, scales, dtype, backend, monkeypatch, time=3):
    """Return outputs and gradients, in float64, of the same numbers in a dtype."""
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    generator = torch.Generator().manual_seed(0)
    of_state, of_weights, of_gradient = scales
    rnn = BilinearRNN(3, 8, transition=level).double()
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.copy_((draw(generator, *parameter.shape) * of_weights).float())
    # sums of inputs times large angles would be rounded by more than a turn
    tokens = torch.randint(3, (2, time), generator=generator)
    x = torch.nn.functional.one_hot(tokens, 3).double() if level == "rotation" else draw(generator, 2, time, 3)
    h0, arriving = draw(generator, 1, 2, 8) * of_state, draw(generator, 2, time, 8) * of_gradient
    x, h0, arriving = (value.float().to(dtype) for value in (x, h0, arriving))
    x.requires_grad_()
    h0.requires_grad_()
    rnn = rnn.to(dtype)
    output = rnn(x, h0)[0]
    output.backward(arriving)
    named = {"output": output.detach(), "h0": h0.grad, "x": x.grad}
    named |= {name: parameter.grad for name, parameter in rnn.named_parameters() if parameter.grad is not None}
    return {name: value.double() for name, value in named.items()}


def close(found, exact, tolerance):
    """Compare what is finite in both, relative to the largest number, or to the smallest that has all digits."""
    both = found.isfinite() & exact.isfinite()
    size = max(SMALLEST, float(exact[both].abs().max())) if both.any() else 1.0
    return not both.any() or float((found - exact)[both].abs().max()) <= tolerance * size


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scales", SCALES)
def test_kernels_torch_and_float64_agree(level, scales, monkeypatch):
    need_kernels("native")
    exact = computed(level, scales, torch.float64, "torch", monkeypatch)
    native = computed(level, scales, torch.float32, "native", monkeypatch)
    plain = computed(level, scales, torch.float32, "torch", monkeypatch)
    for name, truth in exact.items():
        assert torch.equal(native[name].isfinite(), plain[name].isfinite()), name
        assert close(native[name], plain[name], 1e-5), name
        rounded = truth.float().double()
        assert close(native[name], rounded, 1e-5), name
        if name == "output":
            assert torch.equal(native[name].isfinite(), rounded.isfinite()), name
            # large blocks are products of a library, which may subtract one infinity from another
            same = torch.equal(native[name].isnan(), plain[name].isnan())
            assert same or level == "block(8)", name


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_block_whose_products_overflow_has_the_right_infinity(size, monkeypatch):
    """One step: 1e60 - 2e60 is minus infinity, and 1e39 - 1e39 is 0, whichever computes."""
    need_kernels("native")
    for backend in ("native", "torch"):
        monkeypatch.setenv("STATEWISE_BACKEND", backend)
        rnn = BilinearRNN(1, size, transition=f"block({size})")
        with torch.no_grad():
            rnn.transitions[0].weight.zero_()
            rnn.transitions[0].weight[0, 0, :2, 0] = torch.tensor([1e30, -2e30])
            rnn.transitions[0].weight[0, 1, :2, 0] = torch.tensor([1e30, -1e30])
        output, _ = rnn(torch.ones(1, 1, 1), torch.full((1, 1, size), 1e30))
        assert output[0, 0, :2].tolist() == [-torch.inf, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [-300, -160, -38, -20, 0, 20, 30, 100])
def test_gradients_of_rotations_do_not_depend_on_the_size_of_the_state(dtype, exponent):
    """Where h0 and the gradient are both small, their product is below the smallest number."""
    need_kernels("native")
    if dtype == torch.float32 and not -38 <= exponent <= 30:
        return
    generator = torch.Generator().manual_seed(1)
    angles = draw(generator, 2, 5, 3).to(dtype).requires_grad_()
    unit, arriving = draw(generator, 2, 6).to(dtype), draw(generator, 2, 5, 6).to(dtype)
    h0 = (unit * 10.0**exponent).requires_grad_()
    for size in (1.0, 10.0 ** -abs(exponent)):
        angles.grad = h0.grad = None
        _rotated_states(angles, h0, "native").backward(arriving * size)
        exact_angles = angles.detach().double().requires_grad_()
        exact_h0 = h0.detach().double().requires_grad_()
        _rotated_states(exact_angles, exact_h0, "torch").backward((arriving * size).double())
        assert close(h0.grad.double(), exact_h0.grad, 1e-6 if dtype == torch.float32 else 1e-14)


@pytest.mark.parametrize("angle", [1e5, 1e7, 1e12, 1e30, -1e30])
def test_large_angles_are_reduced_without_rounding(angle):
    """The angle is the number that it is: sine and cosine of it are known to all digits."""
    need_kernels("native")
    angles = torch.full((1, 4, 1), angle)
    h0 = torch.tensor([[3.0, -4.0]])
    each = angles.double()[0, 0, 0]
    turned = torch.tensor([[each.cos(), -each.sin()], [each.sin(), each.cos()]], dtype=torch.float64)
    expected, h = [], h0.double()[0]
    for _ in range(4):
        h = turned @ h
        expected.append(h)
    for backend in ("native", "torch"):
        torch.testing.assert_close(
            _rotated_states(angles, h0, backend)[0].double(), torch.stack(expected), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("level", LEVELS)
def test_states_and_inputs_of_another_kind_are_one_sentence_or_right(level):
    rnn = BilinearRNN(3, 8, transition=level)
    x, h0 = torch.randn(2, 4, 3), torch.randn(1, 2, 8)
    expected = rnn(x, h0)[0]
    for other in (h0.double(), h0.half(), h0.bfloat16(), h0.long(), h0.to_sparse(), h0.to("meta"), h0.cfloat()):
        try:
            found = rnn(x, other)[0]
        except InputError as error:
            assert len(str(error)) < 200
        else:
            assert found.device.type == "cpu"
            torch.testing.assert_close(found.float(), rnn(x, other.float())[0])
    for other in (x.double(), x.long(), x.to_sparse(), x.to("meta"), x.cfloat()):
        with pytest.raises(InputError):
            rnn(other, h0)
    assert torch.equal(rnn(x, h0)[0], expected)
    # as a whole on the meta device, shapes are known and nothing is computed
    known = rnn.to("meta")(x.to("meta"), h0.to("meta"))[0]
    assert (known.shape, known.device.type) == (expected.shape, "meta")
