import math

import pytest
import torch

from statewise.training.adam import adam_step
from tests.catalogues import need_kernels


def gradients(parameters, step):
    total = sum(((p - i) ** 2 * (1 + step % 3)).sum() + p.sin().sum() for i, p in enumerate(parameters))
    return torch.autograd.grad(total, parameters)


def parameters(transposed=False, members=1):
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(members, *size, dtype=torch.float64, generator=generator) for size in ((3, 5), (7,), (33, 2))]
    drawn[2] = drawn[2].transpose(1, 2) if transposed else drawn[2]
    return [p.clone(memory_format=torch.preserve_format).requires_grad_() for p in drawn]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("transposed", [False, True])
def test_adam_is_torchs(monkeypatch, decay, backend, transposed):
    need_kernels(backend)
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    ours, theirs = parameters(transposed), parameters(transposed)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in ours]
    optimiser = torch.optim.AdamW(theirs, lr=0.05, weight_decay=decay)
    for step in range(30):
        for p, grad, moment in zip(ours, gradients(ours, step), moments, strict=True):
            adam_step(p.detach(), grad, moment, step + 1.0, [0.05], [decay])
        for p, grad in zip(theirs, gradients(theirs, step), strict=True):
            p.grad = grad
        optimiser.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_members_have_rates_and_decays_of_their_own_and_nan_leaves_one_alone(monkeypatch, backend):
    need_kernels(backend)
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    stacked = parameters(members=3)
    before = [p.detach().clone() for p in stacked]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in stacked]
    for p, grad, moment in zip(stacked, gradients(stacked, 0), moments, strict=True):
        adam_step(p.detach(), grad, moment, 1.0, [0.05, math.nan, 0.01], [0.0, 0.0, 0.3])
    for p, old, grad in zip(stacked, before, gradients(before_with_grad(before), 0), strict=True):
        assert torch.equal(p[1], old[1])
        for member, rate, decay in ((0, 0.05, 0.0), (2, 0.01, 0.3)):
            alone, own = old[member : member + 1].clone(), grad[member : member + 1].contiguous()
            adam_step(alone, own, (torch.zeros_like(own), torch.zeros_like(own)), 1.0, [rate], [decay])
            torch.testing.assert_close(p[member], alone[0], rtol=1e-14, atol=0)


def before_with_grad(tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]
