"""The check before training: every built-in model passes, and each kind of bad class gets one sentence of its own."""

import subprocess
import sys

import pytest
import torch
from examples.own_level import Symmetric
from examples.own_model import RunningMean
from torch import nn

import statewise as sw
from statewise.errors import ModelError, StatewiseError
from statewise.models import TABLE, ModelOptions
from statewise.models.own_check import check_laws, check_own
from tests.command import statewise

MODELS = [spec for kind in TABLE for spec in kind.examples]


class Good(nn.Module):
    """The sum of embeddings so far, with dropout: honest, and the base of the bad ones."""

    def __init__(self, symbols, classes, hidden):
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)
        self.drop = nn.Dropout(0.5)

    def forward(self, tokens):
        return self.read(self.drop(torch.tanh(self.embed(tokens).cumsum(dim=1))))


class WrongConstructor(nn.Module):
    def __init__(self, width):
        super().__init__()


class ConstructorRaises(Good):
    def __init__(self, symbols, classes, hidden):
        super().__init__(symbols, classes, hidden)
        self.table = {}["missing"]


class LastRowOnly(Good):
    def forward(self, tokens):
        return super().forward(tokens)[:, -1]


class NotATensor(Good):
    def forward(self, tokens):
        return super().forward(tokens), None


class WholeNumbers(Good):
    def forward(self, tokens):
        return super().forward(tokens).round().long()


class NotANumber(Good):
    def forward(self, tokens):
        return super().forward(tokens) * float("nan")


class Infinite(Good):
    def forward(self, tokens):
        return super().forward(tokens) / 0.0


class NoParameters(Good):
    def __init__(self, symbols, classes, hidden):
        super().__init__(symbols, classes, hidden)
        self.requires_grad_(False)


class Detached(Good):
    def forward(self, tokens):
        return super().forward(tokens).detach()


class Raises(Good):
    def forward(self, tokens):
        logits = super().forward(tokens)
        raise KeyError("typo")
        return logits


class ChangesTokens(Good):
    def forward(self, tokens):
        tokens += 0 * tokens
        tokens[:, 0] = 0
        return super().forward(tokens)


class Leaks(Good):
    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits + logits.mean(dim=1, keepdim=True)


class LeaksOneStep(Good):
    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits + 0.1 * logits.roll(-1, dims=1)


class LeaksBehindAZeroReadout(Leaks):
    def __init__(self, symbols, classes, hidden):
        super().__init__(symbols, classes, hidden)
        nn.init.zeros_(self.read.weight)
        nn.init.zeros_(self.read.bias)


class BatchMean(Good):
    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits - logits.mean(dim=0, keepdim=True)


class BatchNormed(Good):
    def __init__(self, symbols, classes, hidden):
        super().__init__(symbols, classes, hidden)
        self.norm = nn.BatchNorm1d(classes)

    def forward(self, tokens):
        return self.norm(super().forward(tokens).transpose(1, 2)).transpose(1, 2)


class ScaledByLength(Good):
    def forward(self, tokens):
        return super().forward(tokens) / tokens.shape[1]


class DropoutLeftOn(Good):
    def forward(self, tokens):
        return nn.functional.dropout(super().forward(tokens), 0.5)


class NeedsTwo(Good):
    def forward(self, tokens):
        if tokens.shape[1] < 2:
            raise ValueError("too short")
        return super().forward(tokens)


class LogOfTheLength(Good):
    def forward(self, tokens):
        return super().forward(tokens) + 0 * torch.tensor(tokens.shape[1] - 1.0).log()


class StreamsAnother(Good):
    def init_state(self, batch):
        return torch.zeros(batch, 0, dtype=torch.int64)

    def advance(self, tokens, state):
        return self(tokens)[:, -1], state


class StreamsAllRows(StreamsAnother):
    def advance(self, tokens, state):
        return self(tokens), state


class EndsElsewhere(Good):
    def at_end(self, tokens, lengths):
        return self(tokens)[:, -1]


class WrongLongest(Good):
    longest = "512"


# the checks of types and shapes that tests install answer some before the law does
BAD = {
    WrongConstructor: ("constructor", r"expected __init__\(symbols, classes, hidden"),
    ConstructorRaises: ("constructor", r"KeyError: 'missing' \(test_own_check\.py, line \d+\)"),
    WrongLongest: ("constructor", r"longest is 512; expected None or a whole number"),
    Raises: ("forward", r"KeyError: 'typo' \(test_own_check\.py, line \d+\)"),
    ChangesTokens: ("forward", "changes the tokens"),
    LastRowOnly: ("shape", r"expected logits \[batch, time, classes\]"),
    NotATensor: ("shape", r"gave tuple .* expected logits \[batch, time, classes\]"),
    WholeNumbers: ("shape", "int64|TypeCheckError"),
    NotANumber: ("finite", "NaN"),
    Infinite: ("finite", "infinite"),
    NoParameters: ("gradient", "no trainable parameters"),
    Detached: ("gradient", "without a gradient"),
    NeedsTwo: ("one token", "too short"),
    LogOfTheLength: ("one token", "length 1"),
    DropoutLeftOn: ("repeatable", "other logits each time"),
    BatchMean: ("batch", "in evaluation mode, beside other sequences"),
    BatchNormed: ("batch", "in training, beside other sequences"),
    Leaks: ("causal", "reads ahead: logits before token 2"),
    LeaksOneStep: ("causal", "reads ahead"),
    LeaksBehindAZeroReadout: ("causal", "reads ahead"),
    ScaledByLength: ("padding", "more tokens follow"),
    EndsElsewhere: ("at_end", "at_end and EndsElsewhere.forward disagree"),
    StreamsAnother: ("streaming", "advance and StreamsAnother.forward disagree"),
    StreamsAllRows: ("streaming", "after the last token|TypeCheckError"),
}


def first_broken(laws):
    return next(((law.name, law.broken) for law in laws if law.broken), None)


@pytest.mark.parametrize("spec", MODELS)
def test_every_model_of_the_table_keeps_every_law(spec):
    laws = check_laws(ModelOptions(spec, 12), 5, 4)
    assert first_broken(laws) is None
    assert all(law.checked for law in laws)


@pytest.mark.parametrize("made", [Good, RunningMean, Symmetric])
@pytest.mark.parametrize("sizes", [(2, 2, 4), (5, 3, 64), (1, 2, 2)])
def test_honest_classes_keep_every_law(made, sizes):
    symbols, classes, hidden = sizes
    assert first_broken(check_laws(ModelOptions("own:Model", hidden), symbols, classes, made)) is None


@pytest.mark.parametrize("made", BAD, ids=lambda made: made.__name__)
def test_each_kind_of_bad_class_gets_a_sentence_of_its_own(made):
    name, sentence = BAD[made]
    result = sw.check_model(made)
    assert result.failed
    found = first_broken(result.laws)
    assert found is not None
    assert found[0] == name
    with pytest.raises(ModelError, match=sentence):
        check_own(made, ModelOptions("own:Model", 16), 5, 5)
    assert len(str(found[1]).splitlines()) == 1


@pytest.mark.parametrize("made", [Leaks, BatchNormed, NotANumber], ids=lambda made: made.__name__)
def test_what_fails_the_check_is_not_trained(made, tmp_path):
    with pytest.raises(StatewiseError, match=BAD[made][1]):
        sw.train("parity", made, steps=2, hidden=4, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_check_leaves_random_numbers_and_the_run_as_they_were():
    before = torch.random.get_rng_state()
    check_laws(ModelOptions("own:Model", 8), 3, 3, Good)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_cannot_be_tried_is_not_called_ok():
    laws = {law.name: law for law in check_laws(ModelOptions("own:Model", 8), 3, 3, Raises)}
    assert laws["constructor"].checked
    assert not laws["causal"].checked
    shown = sw.check_model(Raises)
    assert "not checked" in str(shown)
    assert {check["name"]: check["ok"] for check in shown.to_dict()["checks"]}["causal"] is None


def test_the_longest_length_of_a_model_is_kept_to():
    class Short(Good):
        longest = 1

        def forward(self, tokens):
            assert tokens.shape[1] <= 1
            return super().forward(tokens)

    assert first_broken(check_laws(ModelOptions("own:Model", 8), 3, 3, Short)) is None


def test_the_command_says_which_check_failed_and_where(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, symbols, classes, hidden):\n"
        "        super().__init__()\n        self.read = nn.Embedding(symbols, classes)\n"
        "    def forward(self, tokens):\n        return self.read(tokens).flip(1)\n"
        "class Typo(Net):\n    def forward(self, tokens):\n        return self.raed(tokens)\n"
    )
    leaks = statewise("check-model", f"{file}:Net", "--symbols", 3, "--hidden", 8)
    assert leaks.returncode == 1
    assert "causal       Net reads ahead: logits before token" in leaks.stdout
    assert "3 checks failed: it is not trained" in leaks.stdout
    typo = statewise("check-model", f"{file}:Typo")
    assert typo.returncode == 1
    assert "has no attribute 'raed' (net.py, line 10)" in typo.stdout
    for wrong in (f"{file}:Nett", f"{tmp_path}/none.py:Net", "no.such.module:Net"):
        done = statewise("check-model", wrong)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_file_is_run_once_in_a_process(tmp_path):
    file, counted = tmp_path / "net.py", tmp_path / "counted"
    file.write_text(
        f"from torch import nn\nopen({str(counted)!r}, 'a').write('x')\nclass Net(nn.Module):\n"
        "    def __init__(self, symbols, classes, hidden, scale=1.0):\n"
        "        super().__init__()\n        self.read = nn.Embedding(symbols, classes)\n"
        "    def forward(self, tokens):\n        return self.read(tokens)\n"
    )
    program = (
        f"import statewise as sw\nfor n in range(3): sw.train('parity', f'{file}:Net(scale={{n}})', steps=2, hidden=4)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert counted.read_text() == "x"
