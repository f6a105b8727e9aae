"""Saved networks are built again as they were; damage, other classes and other formats are refused."""

import inspect
import json

import pytest
import torch

from statewise import BilinearRNN, StateTracker
from statewise.errors import ModelError, PretrainedError, StatewiseError
from statewise.models import BASELINES, build_model, load_pretrained
from statewise.models.levels import transition_spec
from statewise.models.pretrained import write_pretrained
from statewise.transitions import Additive, Full
from tests.catalogues import LEVELS

STACKS = [{}, {"num_layers": 3, "norm": True, "residual": True, "dropout": 0.25}, {"bidirectional": True}]


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("spec", [*LEVELS, "diagonal(frozen=true)"])
@pytest.mark.parametrize("additive", ["none", "constant", "input"])
def test_trackers_are_built_again(spec, additive, tmp_path):
    tokens = torch.randint(0, 5, (2, 9), generator=drawn())
    for embedding, readout, dtype in ((0, "normalised", torch.float32), (3, "plain", torch.float64)):
        model = StateTracker(5, 4, 6, spec, additive, embedding, readout, drawn()).to(dtype).eval()
        again = StateTracker.from_pretrained(model.save_pretrained(tmp_path / "net"))
        assert torch.equal(model(tokens), again(tokens))
        assert again.arguments() == model.arguments()
        assert not again.training
        trained = [[p.requires_grad for p in each.parameters()] for each in (model, again)]
        assert trained[0] == trained[1]


@pytest.mark.parametrize("spec", LEVELS)
@pytest.mark.parametrize("stack", STACKS, ids=["one", "three", "both directions"])
def test_layers_are_built_again(spec, stack, tmp_path):
    rnn = BilinearRNN(5, 6, spec, "input", batch_first=False, dtype=torch.float64, generator=drawn(), **stack).eval()
    again = BilinearRNN.from_pretrained(rnn.save_pretrained(tmp_path / "net"))
    x = torch.randn(7, 2, 5, dtype=torch.float64, generator=drawn())
    for ours, theirs in zip(rnn(x), again(x), strict=True):
        assert torch.equal(ours, theirs)
    assert repr(again) == repr(rnn)


@pytest.mark.parametrize("made", [StateTracker, BilinearRNN])
def test_every_argument_of_the_constructor_is_saved(made):
    """A new argument that is not saved would be lost without a word."""
    saved = set((made(5, 4, 6) if made is StateTracker else made(5, 6)).arguments())
    # where it is and how it begins are no part of a network that has its weights; the two others are refused
    left_out = {"device", "dtype", "generator", "bias", "proj_size"}
    assert saved == set(inspect.signature(made).parameters) - left_out


@pytest.mark.parametrize("spec", [kind.examples[-1] for kind in BASELINES.values()])
def test_baselines_are_built_again(spec, tmp_path):
    model = build_model(spec, 5, 4, 12, seed=3).eval()
    given = {"model": spec, "symbols": 5, "classes": 4, "hidden": 12}
    again = load_pretrained(write_pretrained(tmp_path / "net", model, "build_model", given))
    tokens = torch.randint(0, 5, (2, 6), generator=drawn())
    assert torch.equal(model(tokens), again(tokens))


def test_any_class_is_found_by_its_directory(tmp_path):
    for name, model in (("a", StateTracker(5, 4, 6)), ("b", BilinearRNN(5, 6))):
        model.save_pretrained(tmp_path / name)
        assert type(load_pretrained(tmp_path / name)) is type(model)
    with pytest.raises(PretrainedError, match="holds a BilinearRNN, not a StateTracker"):
        StateTracker.from_pretrained(tmp_path / "b")


class Own(Full):
    """A level of one's own."""


def test_classes_of_ones_own_are_named_and_never_imported(tmp_path):
    for transition in (Own(5, 6), Additive(Own(5, 6), "input")):
        with pytest.raises(ModelError, match="Own is a class of one's own"):
            StateTracker(5, 4, 6, transition).save_pretrained(tmp_path / "own")
    assert not (tmp_path / "own").exists()
    given = {"model": "own.py:Net", "symbols": 5, "classes": 4, "hidden": 6}
    write_pretrained(tmp_path / "net", StateTracker(5, 4, 6), "build_model", given)
    with pytest.raises(PretrainedError, match=r"own\.py:Net, which is no class of statewise"):
        load_pretrained(tmp_path / "net")


def test_a_level_is_named_by_what_builds_it():
    model = StateTracker(5, 4, 6, "block(3, init=features)", "constant")
    assert transition_spec(model.transition) == ("block(3)", "constant")
    assert transition_spec(model.requires_grad_(False).transition) == ("block(3, frozen=true)", "constant")


def test_damage_is_told(tmp_path):
    def saved():
        return StateTracker(5, 4, 6).save_pretrained(tmp_path / "net")

    for name, match in (("model.safetensors", "is damaged"), ("config.json", "is damaged")):
        file = saved() / name
        content = bytearray(file.read_bytes())
        content[-3] ^= 1
        file.write_bytes(content)
        with pytest.raises(PretrainedError, match=match):
            StateTracker.from_pretrained(tmp_path / "net")
        file.unlink()
        with pytest.raises(PretrainedError, match="cannot read"):
            StateTracker.from_pretrained(tmp_path / "net")
    manifest = saved() / "manifest.json"
    held = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(held | {"format": 7}))
    with pytest.raises(PretrainedError, match="is of format 7; expected at most 1"):
        StateTracker.from_pretrained(tmp_path / "net")
    for broken in ("[", "[]", "{}"):
        manifest.write_text(broken)
        with pytest.raises(PretrainedError, match="cannot be read; save the network again"):
            StateTracker.from_pretrained(tmp_path / "net")
    with pytest.raises(PretrainedError, match=r"has no manifest\.json; give a directory"):
        StateTracker.from_pretrained(tmp_path / "none")


def test_arguments_of_a_later_version_are_one_sentence(tmp_path):
    model = StateTracker(5, 4, 6)
    write_pretrained(tmp_path / "net", model, "StateTracker", model.arguments() | {"gates": 3})
    with pytest.raises(PretrainedError, match=r"cannot be built.*gates"):
        StateTracker.from_pretrained(tmp_path / "net")
    write_pretrained(tmp_path / "net", model, "StateTracker", model.arguments() | {"classes": 9})
    with pytest.raises(PretrainedError, match="cannot be built"):
        StateTracker.from_pretrained(tmp_path / "net")


def test_a_save_replaces_an_earlier_one_and_nothing_else(tmp_path):
    first, second = StateTracker(5, 4, 6), StateTracker(5, 4, 8)
    first.save_pretrained(tmp_path / "net")
    (tmp_path / "net" / "notes.txt").write_text("kept")
    second.save_pretrained(tmp_path / "net")
    assert StateTracker.from_pretrained(tmp_path / "net").arguments()["hidden_size"] == 8
    assert (tmp_path / "net" / "notes.txt").read_text() == "kept"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "file").write_text("")
    for name in ("run", "file"):
        with pytest.raises(StatewiseError, match=r"use another directory|directory of its own"):
            first.save_pretrained(tmp_path / name)
    assert (tmp_path / "run" / "config.json").read_text() == "{}"
