"""The laws that every model owes: causal, the same in pieces, a function of its seed."""

import pytest
import torch

from statewise.errors import StatewiseError
from statewise.models import KINDS, TABLE, build_model

# every row of the table of models, so that a new one is tested by being there
MODELS = [spec for kind in TABLE for spec in kind.examples]
SYMBOLS, CLASSES, HIDDEN = 3, 5, 12
every = pytest.mark.parametrize("spec", MODELS)


def build(spec, seed=0, **options):
    return build_model(spec, SYMBOLS, CLASSES, HIDDEN, seed, **options).double().eval()


def words(time=9, batch=4):
    return torch.randint(0, SYMBOLS, (batch, time), generator=torch.Generator().manual_seed(time))


def test_no_kind_of_model_is_left_out():
    assert {spec.split("(")[0] for spec in MODELS} == set(KINDS)


@every
def test_models_run_in_pieces(spec):
    model, tokens = build(spec), words()
    whole = model(tokens)
    assert whole.shape == (4, 9, CLASSES)
    state = model.init_state(4)
    for begin, end in [(0, 1), (1, 5), (5, 9)]:
        logits, state = model.advance(tokens[:, begin:end], state)
        torch.testing.assert_close(logits, whole[:, end - 1])
    state = model.init_state(4)
    for t in range(9):
        logits, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(logits, whole[:, t])


@pytest.mark.parametrize("symbols", [SYMBOLS, 50])
@every
def test_answers_are_rows_of_the_whole_run(spec, symbols):
    """Some answers only, of symbols that repeat and of more symbols than tokens: the same logits and gradients."""
    model = build_model(spec, symbols, CLASSES, HIDDEN, 0).double().eval()
    tokens = torch.randint(0, symbols, (4, 9), generator=torch.Generator().manual_seed(0))
    rows, places = torch.tensor([3, 0, 0, 2]), torch.tensor([1, 4, 6, 0])
    weights = torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = []
    for logits in (model.answers(tokens, rows, places), model(tokens)[rows, places]):
        model.zero_grad()
        (logits * weights).sum().backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        found.append((logits.detach(), gradients))
    torch.testing.assert_close(*found)


@every
def test_models_never_look_ahead(spec):
    model, tokens = build(spec), words()
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % SYMBOLS
    torch.testing.assert_close(model(changed)[:, :5], model(tokens)[:, :5])


@every
def test_models_depend_on_their_seed_alone(spec):
    torch.manual_seed(1)
    first = build(spec, seed=3)(words())
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    assert torch.equal(build(spec, seed=3)(words()), first)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(build(spec, seed=4)(words()), first)


@every
def test_every_parameter_is_trained(spec):
    model = build(spec)
    model(words()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert not parameter.requires_grad or parameter.grad is not None, name


@pytest.mark.parametrize("additive", ["none", "constant"])
@pytest.mark.parametrize("readout", ["plain", "normalised"])
@pytest.mark.parametrize("embedding", [0, 4])
def test_tracker_options_combine(additive, readout, embedding):
    model, tokens = build("full", additive=additive, readout=readout, embedding=embedding), words()
    answers = model(tokens)[:, -1].argmax(-1)
    logits, _ = model.advance(tokens, model.init_state(4))
    assert torch.equal(answers, logits.argmax(-1))


BAD = [
    ("fulll", {}, 'did you mean "full"'),
    ("mmaba", {}, 'did you mean "mamba"'),
    ("lstm(0)", {}, "at least 1 layer"),
    ("mamba(1, eigenvalues=sgned)", {}, 'did you mean "signed"'),
    ("transformer(1, heads=5)", {}, "5 heads divide"),
    ("transformer(1, 2)", {}, "one plain argument"),
    ("deltaproduct(0)", {}, "at least 1 Householder"),
    ("deltaproduct(2, 3)", {}, "one plain argument, its n"),
    ("deltaproduct(2, layers=0)", {}, "at least 1 layer"),
    ("deltanet(1, heads=5)", {}, "5 heads divide"),
    ("deltanet(1, negative=yes)", {}, "true or false"),
    ("lstm", {"additive": "input"}, "no additive term"),
    ("full*full", {}, "is a product"),
]


@pytest.mark.parametrize(("spec", "options", "message"), BAD)
def test_bad_models_get_one_sentence(spec, options, message):
    with pytest.raises(StatewiseError, match=message):
        build(spec, **options)


def test_hidden_sizes_are_checked():
    with pytest.raises(StatewiseError, match="hidden is 0"):
        build_model("lstm", 2, 2, 0, 0)


def test_learned_positions_end():
    model = build("transformer")
    with pytest.raises(StatewiseError, match="at most 1024 symbols, got 1030"):
        model(words(time=1030, batch=1))


@every
@pytest.mark.parametrize("readout", ["plain", "normalised"])
def test_the_end_of_a_word_is_where_the_whole_run_is_there(spec, readout):
    """The answer after the last token, and its gradients, are those of the whole run, with rows of unlike lengths."""
    model, tokens = build(spec, readout=readout), words()
    lengths = torch.tensor([9, 1, 4, 6])
    whole = model(tokens)[torch.arange(4), lengths - 1]
    ends = model.at_end(tokens, lengths)
    torch.testing.assert_close(ends, whole)
    weight = torch.randn(whole.shape, dtype=whole.dtype, generator=torch.Generator().manual_seed(3))
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected = torch.autograd.grad((whole * weight).sum(), parameters, allow_unused=True)
    found = torch.autograd.grad((ends * weight).sum(), parameters, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        if a is None or b is None:
            assert a is b is None
        else:
            torch.testing.assert_close(a, b)
