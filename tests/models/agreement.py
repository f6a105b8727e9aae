"""Two computations of the same thing: outputs, final states, and the gradient of every input."""

import torch


def assert_agree(first, second, given, rtol=1e-9, atol=1e-11):
    """Compare tuples of tensors, and the gradients of a weighted sum of all of them.

    `given` are the tensors to differentiate: one list for both, or a pair of lists in the same order.
    """
    one, other = given if isinstance(given, tuple) else (given, given)
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
    made = torch.Generator().manual_seed(1)
    weights = [torch.randn(part.shape, dtype=torch.float64, generator=made) for part in first]
    sums = [sum((part * weight).sum() for part, weight in zip(side, weights, strict=True)) for side in (first, second)]
    # what both were made of may be shared
    found, expected = torch.autograd.grad(sums[0], one, retain_graph=True), torch.autograd.grad(sums[1], other)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def tensors(*shapes, seed=0):
    """Return tensors in float64 that take gradients."""
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64, generator=made).requires_grad_() for shape in shapes]


def shaken(model, seed=0, spread=0.3):
    """Return the model in float64 with all weights moved, so that none is at its initial zero or one."""
    made = torch.Generator().manual_seed(seed)
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64, generator=made) * spread)
    return model


def words(symbols, batch=3, time=13):
    """Return token sequences."""
    return torch.randint(0, symbols, (batch, time), generator=torch.Generator().manual_seed(2))
