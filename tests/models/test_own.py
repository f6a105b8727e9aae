"""Models and levels of a user's own: forward suffices, everything else has a default that works."""

import inspect

import pytest
import torch
from examples.own_level import Symmetric
from torch import nn

import statewise as sw
from statewise.errors import NetworkError, StatewiseError, TransitionError
from statewise.machines import machine
from statewise.models import AdaptedModel, BilinearRNN, StateTracker, as_model, build_model
from statewise.models.own import has_source, own_class, own_model, source_hash
from statewise.models.table import is_own, kind_of, spec_of
from statewise.tasks import Task
from statewise.theory import network_of
from statewise.training import evaluate_model
from statewise.transitions import Additive, Full, LinearTransition


class Last(nn.Module):
    """The sum of embeddings so far, mixed once more for each layer."""

    def __init__(self, symbols, classes, hidden, layers=1):
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)
        self.mix = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))

    def forward(self, tokens):
        h = self.embed(tokens).cumsum(dim=1)
        for layer in self.mix:
            h = torch.tanh(layer(h))
        return self.read(h)


class Streaming(nn.Module):
    """Knows parity by heart, and has a state of its own."""

    def __init__(self, symbols, classes, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.calls = 0

    def forward(self, tokens):
        odd = tokens.cumsum(dim=1) % 2
        return self.weight * nn.functional.one_hot(odd, 2).float()

    def init_state(self, batch):
        return torch.zeros(batch, dtype=torch.int64)

    def advance(self, tokens, state):
        self.calls += 1
        state = (state + tokens.sum(dim=1)) % 2
        return nn.functional.one_hot(state, 2).float(), state


def tokens():
    return torch.randint(0, 3, (4, 7), generator=torch.Generator().manual_seed(0))


def test_forward_is_all_that_a_model_needs():
    model = build_model(Last, 3, 5, 8, seed=1)
    assert isinstance(model, AdaptedModel)
    whole, lengths = model(tokens()), torch.tensor([7, 1, 3, 5])
    torch.testing.assert_close(model.at_end(tokens(), lengths), whole[torch.arange(4), lengths - 1])
    state = model.init_state(4)
    for begin, end in [(0, 2), (2, 3), (3, 7)]:
        logits, state = model.advance(tokens()[:, begin:end], state)
        torch.testing.assert_close(logits, whole[:, end - 1])
    state = model.init_state(4)
    for t in range(7):
        logits, state = model.step(tokens()[:, t], state)
        torch.testing.assert_close(logits, whole[:, t])
    assert model.longest is None
    assert model.sequences_at_once(10_000) >= 1


def test_initial_weights_depend_on_the_seed_alone():
    before = torch.random.get_rng_state()
    one, same, other = (build_model(Last, 3, 5, 8, seed=seed)(tokens()) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_streaming_state_is_used_where_there_is_one():
    model = build_model(Streaming, 2, 2, 4)
    scores = evaluate_model(model, Task(machine("parity")), [3, 200_000], 2, 0)
    assert [score.correct for score in scores] == [2, 2]
    assert model.module.calls > 2
    assert as_model(model) is model


def test_names_options_and_hashes(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        "    def __init__(self, symbols, classes, hidden, layers=1):\n"
        "        super().__init__()\n        self.layers = layers\n        self.read = nn.Embedding(symbols, classes)\n"
        "    def forward(self, tokens):\n        return self.read(tokens)\n"
    )
    spec = f"{file}:Net(layers=3)"
    assert is_own(spec)
    assert not is_own("block(2)")
    assert kind_of(str(tmp_path / "lstm (copy).py:Net")) is None
    assert own_model(spec).made is None
    model = build_model(spec, 3, 5, 8)
    assert model.module.layers == 3
    assert spec_of(Last) == "tests.models.test_own:Last"
    assert source_hash(Last) != source_hash(Streaming)
    for wrong, message in [
        (f"{file}:Nett", "did you mean"),
        (f"{file}:Net(3)", "name it"),
        (f"{file}:Net(depth=2)", "depth"),
        (f"{tmp_path}/none.py:Net", "is no file"),
        ("no.such.module:Net", "cannot import"),
    ]:
        with pytest.raises(StatewiseError, match=message):
            build_model(wrong, 3, 5, 8)
    (tmp_path / "broken.py").write_text("raise KeyError(3)")
    with pytest.raises(StatewiseError, match="KeyError"):
        build_model(f"{tmp_path}/broken.py:Net", 3, 5, 8)


def test_layers_and_trackers_take_a_transition_of_ones_own():
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    level = Symmetric(3, 4)
    layer = BilinearRNN(3, 4, transition=level)
    output, _ = layer(x)
    h = layer.init_state(2)[0]
    for t in range(6):
        h = (level.dense(level.coefficients(x[:, t])) @ h.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(output[:, t], h)
    assert layer.transition == "Symmetric"
    tracker = StateTracker(3, 5, 4, transition=Symmetric(3, 4), readout="plain")
    assert tracker(tokens()).shape == (4, 7, 5)
    assert StateTracker(3, 5, 4, transition=Additive(Full(3, 4), "constant"))(tokens()).shape == (4, 7, 5)
    assert isinstance(build_model(Symmetric, 3, 5, 4), StateTracker)


def test_transitions_that_do_not_fit_get_one_sentence():
    with pytest.raises(TransitionError, match="input and hidden sizes"):
        BilinearRNN(3, 8, transition=Symmetric(3, 4))
    with pytest.raises(TransitionError, match="makes one recurrence"):
        BilinearRNN(4, 4, transition=Symmetric(4, 4), num_layers=2)
    with pytest.raises(TransitionError, match="wrap it as Additive"):
        StateTracker(3, 5, 4, transition=Symmetric(3, 4), additive="constant")


def test_a_file_that_names_no_class_gets_one_sentence():
    with pytest.raises(StatewiseError, match="names a file and no class"):
        build_model("mine.py", 3, 5, 8)
    with pytest.raises(StatewiseError, match="takes no additive"):
        build_model(Symmetric, 3, 5, 4, additive="input")


def test_a_whole_file_is_the_source_of_a_class_in_it(tmp_path):
    file = tmp_path / "net.py"
    text = "from torch import nn\nSCALE = 1.0\nclass Net(nn.Module):\n    pass\n"
    file.write_text(text)
    before = source_hash(f"{file}:Net")
    file.write_text(text.replace("1.0", "2.0"))
    assert source_hash(f"{file}:Net") != before


def test_a_level_needs_no_more_than_what_acts():
    class Minimal(LinearTransition):
        def __init__(self, input_size, hidden_size):
            super().__init__()
            self.input_size, self.hidden_size = input_size, hidden_size
            self.weight = nn.Parameter(torch.eye(hidden_size).repeat(input_size, 1, 1))

        def coefficients(self, x):
            return torch.einsum("...k,kij->...ij", x, self.weight)

        def act(self, coefficients, h):
            return (coefficients @ h.unsqueeze(-1)).squeeze(-1)

        def dense(self, coefficients):
            return coefficients

    model = build_model(Minimal, 3, 5, 4)
    assert model(tokens()).shape == (4, 7, 5)
    network_of(model)
    with pytest.raises(TransitionError, match="not closed"):
        model.transition.compose(torch.eye(4), torch.eye(4))


@pytest.mark.parametrize("slip", [lambda c, h: h @ c[0], lambda c, h: torch.tanh((c @ h.unsqueeze(-1)).squeeze(-1))])
def test_nothing_is_proved_of_a_level_whose_matrices_do_not_act(slip):
    class Slip(Symmetric):
        def act(self, coefficients, h):
            return slip(coefficients, h)

        def dense(self, coefficients):
            return coefficients + torch.triu(torch.ones_like(coefficients), 1)

    with pytest.raises(NetworkError, match="act and dense of Slip disagree"):
        network_of(build_model(Slip, 3, 5, 4))


def test_a_class_is_known_by_its_file_and_by_itself(tmp_path, caplog):
    file = tmp_path / "net.py"
    file.write_text("SCALE = 1\n" + inspect.getsource(Last).replace("nn.Module", "torch.nn.Module"))
    file.write_text("import torch\nfrom torch import nn\n" + file.read_text())
    spec, made = f"{file}:Last", own_class(f"{file}:Last")
    whole, classes = source_hash(spec), source_hash(made)
    assert whole != classes
    for model in (spec, made):
        assert has_source(model, whole)
        assert has_source(model, classes)
        assert not has_source(model, source_hash(Streaming))
    sw.train("parity", spec, steps=2, hidden=4, out=tmp_path / "run")
    sw.load(tmp_path / "run", made)
    assert not caplog.records
    sw.load(tmp_path / "run", Last)
    assert "is not that of the run" in caplog.text


CLASS = "import torch\nfrom {helper} import width\n\n\nclass Net(torch.nn.Module):\n    pass\n"


def test_what_a_module_imports_from_its_package_is_part_of_its_source(tmp_path, monkeypatch):
    package = tmp_path / "ownpackage"
    (package / "deep").mkdir(parents=True)
    for folder in (package, package / "deep"):
        (folder / "__init__.py").write_text("")
    (package / "net.py").write_text(CLASS.format(helper="ownpackage.deep.sizes"))
    (package / "deep" / "sizes.py").write_text("from . import base\n\nwidth = base.WIDTH\n")
    (package / "deep" / "base.py").write_text("WIDTH = 3\n")
    (package / "stranger.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = source_hash("ownpackage.net:Net")
    made = own_class("ownpackage.net:Net")
    assert has_source(made, before)
    (package / "stranger.py").write_text("x = 1\n")
    assert source_hash("ownpackage.net:Net") == before
    (package / "deep" / "base.py").write_text("WIDTH = 4\n")
    after = source_hash("ownpackage.net:Net")
    assert after != before
    assert not has_source(made, before)
    assert has_source(made, after)
    # functions of the module itself count too
    (package / "net.py").write_text(CLASS.format(helper="ownpackage.deep.sizes") + "\n\nDEPTH = 2\n")
    assert source_hash("ownpackage.net:Net") not in (before, after)


def test_a_run_by_the_text_of_its_class_is_opened_by_its_module(tmp_path, monkeypatch):
    (tmp_path / "alone.py").write_text(CLASS.replace("from {helper} import width\n", ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    made = own_class("alone:Net")
    assert has_source("alone:Net", source_hash(made))
    assert source_hash(made) != source_hash("alone:Net")


def test_what_a_file_imports_from_its_directory_is_part_of_its_source(tmp_path, monkeypatch):
    file = tmp_path / "net.py"
    file.write_text(CLASS.format(helper="ownhelper"))
    plain = source_hash(f"{file}:Net")
    (tmp_path / "ownhelper.py").write_text("width = 3\n")
    with_helper = source_hash(f"{file}:Net")
    (tmp_path / "ownhelper.py").write_text("width = 4\n")
    assert len({plain, with_helper, source_hash(f"{file}:Net")}) == 3
    monkeypatch.syspath_prepend(str(tmp_path))
    assert own_class(f"{file}:Net").__name__ == "Net"
