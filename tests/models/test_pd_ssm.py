"""PD-SSM against dense matrices that are written from its equation, with the same weights."""

import math

import pytest
import torch
from torch.nn import functional as F

from statewise.errors import StatewiseError
from statewise.models import build_model
from statewise.models.baselines import pd_ssm
from statewise.models.baselines.pd_ssm import PDTracker, sparse_scan
from tests.models.agreement import assert_agree, shaken, tensors, words

SYMBOLS, CLASSES, WIDTH = 5, 4, 10


def parts(*states):
    """Return complex tensors as real ones."""
    return tuple(torch.view_as_real(state) for state in states)


def dense_run(P, D, b, x):
    """Multiply by P diag(D) and add, step by step; time comes first."""
    xs = []
    for t in range(len(D)):
        A = P[t].to(D.dtype) @ torch.diag_embed(D[t])
        x = (A @ x.unsqueeze(-1)).squeeze(-1) + b[t]
        xs.append(x)
    return torch.stack(xs)


def straight_through(M):
    """Return matrices with a single 1 in each column whose gradient is that of the softmax of the column."""
    soft = M.softmax(dim=-2)
    hard = F.one_hot(M.argmax(dim=-2), M.shape[-2]).mT
    return hard + soft - soft.detach()


# from 32 steps on in chunks: whole ones (36, 63), a last one of two steps (37, 101), of a few (32, 43)
@pytest.mark.parametrize("time", [1, 11, 31, 32, 36, 37, 43, 63, 101])
def test_the_scan_is_its_recurrence(time):
    batch, hidden = 3, 7
    vectors = (time, batch, hidden, 2)
    M, D, b, x = given = tensors((time, batch, hidden, hidden), vectors, vectors, (batch, hidden, 2))
    D, b, x = (torch.view_as_complex(part) for part in (D, b, x))
    codes = torch.arange(time * batch).view(time, batch)
    fast = sparse_scan(M.mT.softmax(dim=-1).flatten(0, 1), D, b, x, codes)
    slow = dense_run(straight_through(M), D, b, x)
    assert_agree(parts(fast, fast[-1]), parts(slow, slow[-1]), given)


@pytest.mark.parametrize("time", [33, 49, 64, 257])
def test_chunks_are_the_steps(time, monkeypatch):
    batch, hidden, symbols = 2, 5, 3
    vectors = (time, batch, hidden, 2)
    soft, D, b, x = given = tensors((symbols, hidden, hidden), vectors, vectors, (batch, hidden, 2))
    D, b, x = (torch.view_as_complex(part) for part in (0.6 * D, b, x))
    codes = torch.randint(0, symbols, (time, batch), generator=torch.Generator().manual_seed(3))
    composed = []
    monkeypatch.setattr(pd_ssm.Chunks, "fill", counted(composed, pd_ssm.Chunks.fill))
    chunks = sparse_scan(soft, D, b, x, codes)
    assert len(composed) == 1
    monkeypatch.setattr(pd_ssm, "_chunks_pay", lambda rows: False)
    steps = sparse_scan(soft, D, b, x, codes)
    assert len(composed) == 1
    assert_agree(parts(chunks, chunks[-1]), parts(steps, steps[-1]), given)


def counted(calls, method):
    """Return a method that notes its calls."""

    def call(self, *given):
        calls.append(given)
        return method(self, *given)

    return call


def test_large_steps_are_not_composed():
    rows = torch.zeros(64, 64, 64, dtype=torch.int64)
    assert not pd_ssm._chunks_pay(rows)
    assert not pd_ssm._chunks_pay(rows[:31, :4])
    assert pd_ssm._chunks_pay(rows[:32, :4])


def dense(model, tokens):
    """Run the network from its equation."""
    u, ends = model.embedding(tokens), []
    for block in model.blocks:
        mixer, norm = block.mixer, block.norm
        mixture = F.softmax(u @ mixer.S.weight.T, dim=-1)
        M = sum(mixture[..., k, None, None] * mixer.M[k].T for k in range(len(mixer.M)))
        angle = 2 * math.pi * mixer.phase(u)
        D = mixer.magnitude(u) * torch.complex(angle.cos(), angle.sin())
        B = torch.complex(mixer.B.weight[:WIDTH], mixer.B.weight[WIDTH:])
        first = F.one_hot(torch.zeros(len(tokens), dtype=torch.int64), WIDTH).to(B.dtype)
        over_time = (part.transpose(0, 1) for part in (straight_through(M), D, u.to(B.dtype) @ B.T))
        x = dense_run(*over_time, first).transpose(0, 1)
        y = torch.cat([x.real, x.imag], dim=-1) @ mixer.C.weight.T + mixer.C.bias + mixer.D * u
        u = F.layer_norm(y, (WIDTH,), norm.weight, norm.bias)
        ends.append(x[:, -1])
    return u @ model.readout.weight.T + model.readout.bias, ends


@pytest.mark.parametrize(("layers", "dictionary", "time"), [(1, 8, 13), (3, 2, 13), (2, 3, 45)])
def test_pd_ssm_is_its_equation(layers, dictionary, time):
    model, tokens = shaken(PDTracker(SYMBOLS, CLASSES, WIDTH, layers, dictionary)), words(SYMBOLS, time=time)
    logits, states = model.run(tokens, model.init_state(len(tokens)))
    answers, ends = dense(model, tokens)
    assert_agree((logits, *parts(*states)), (answers, *parts(*ends)), list(model.parameters()))


def test_dictionaries_are_checked():
    with pytest.raises(StatewiseError, match="at least 1 matrix, got 0"):
        build_model("pd_ssm(dictionary=0)", SYMBOLS, CLASSES, WIDTH)
