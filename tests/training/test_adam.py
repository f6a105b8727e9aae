import pytest
import torch

from statewise.training.adam import Adam
from tests.catalogues import need_kernels


def descend(optimiser, parameters, steps=30):
    for step in range(steps):
        optimiser.zero_grad()
        total = sum(((p - i) ** 2 * (1 + step % 3)).sum() + p.sin().sum() for i, p in enumerate(parameters))
        total.backward()
        # one parameter is sometimes left out
        if step % 4 == 1:
            parameters[1].grad = None
        optimiser.step()


def parameters(dtype, transposed=False):
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(size, dtype=dtype, generator=generator) for size in ((3, 5), (7,), (), (33, 2))]
    drawn[3] = drawn[3].T if transposed else drawn[3]
    return [p.clone(memory_format=torch.preserve_format).requires_grad_() for p in drawn]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("transposed", [False, True])
def test_adam_is_torchs(monkeypatch, decay, backend, transposed):
    need_kernels(backend)
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    ours, theirs = parameters(torch.float64, transposed), parameters(torch.float64, transposed)
    descend(Adam(ours, lr=0.05, weight_decay=decay), ours)
    descend(torch.optim.AdamW(theirs, lr=0.05, weight_decay=decay), theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_its_state_is_torchs():
    ours, theirs = parameters(torch.float32), parameters(torch.float32)
    mine, yours = Adam(ours), torch.optim.AdamW(theirs)
    descend(mine, ours, 3)
    descend(yours, theirs, 3)
    for a, b in zip(ours, theirs, strict=True):
        assert mine.state[a].keys() == yours.state[b].keys()
        assert mine.state[a]["step"] == yours.state[b]["step"]
