"""Equal terms: the same for every model, tuned at training lengths only."""

import pytest

from statewise.errors import GridError
from statewise.models import TABLE
from statewise.runs.record import FORMAT, Record, RecordedScore
from statewise.sweep.terms import LONGEST, SETTINGS, Terms, readable
from statewise.sweep.trial_records import on_terms, trial_of, trials_of
from statewise.sweep.trials import check_size

TERMS = Terms(steps=30, test_lengths=(10, 500), words=50, hidden=12)
# what a recipe may set for its model
OWN = {"model", "weight_decay", "readout", "embedding"}


def recorded(setting, seed, inside, far, status="done", model="full"):
    """A record as a run of a trial leaves it, with the score at training lengths and at 500."""
    options = TERMS.options("parity", model, setting, seed)
    scores = () if far is None else (RecordedScore(length=500, score=far),)
    known = None if inside is None else RecordedScore(length=10, score=inside)
    return Record(
        format=FORMAT,
        key=options.key(),
        status=status,
        config=options,
        scores=scores,
        in_distribution=known,
        seconds=2.0,
    )


def test_every_model_trains_on_the_same_terms():
    names = [name for kind in TABLE for name in kind.examples]
    options = [TERMS.options("parity", name, SETTINGS[0], 3).model_dump(exclude=OWN) for name in names]
    assert all(found == options[0] for found in options)
    assert (options[0]["supervision"], options[0]["tests"], options[0]["late"]) == ("aligned", "balanced", 0)


def test_evaluations_during_training_are_at_training_lengths():
    assert max(TERMS.options("parity", "full", SETTINGS[0], 0).probe) <= LONGEST


def test_the_setting_is_chosen_at_training_lengths_and_never_by_the_test_length():
    tuning = [recorded(SETTINGS[0], 0, 0.4, 1.0), recorded(SETTINGS[2], 0, 0.9, 0.0)]
    assert trial_of("parity", "full", tuning).setting == SETTINGS[2]


def test_of_equal_settings_the_first_that_is_named_is_kept():
    tuning = [recorded(setting, 0, 0.9, 0.1 * place) for place, setting in enumerate(SETTINGS)]
    assert trial_of("parity", "full", reversed(tuning)).setting == SETTINGS[0]


def test_a_setting_that_diverged_is_chosen_only_where_all_did():
    diverged = recorded(SETTINGS[0], 0, None, None, "diverged")
    assert trial_of("parity", "full", [diverged, recorded(SETTINGS[1], 0, -0.2, 0.0)]).setting == SETTINGS[1]
    alone = trial_of("parity", "full", [diverged])
    assert alone.scores(500) == (0.0,)
    assert alone.reason == "training diverged"
    assert not alone.beats_constant(500)


def test_seeds_of_the_chosen_setting_only_are_scored_and_all_runs_cost():
    runs = [recorded(SETTINGS[0], 0, 0.2, 0.3), recorded(SETTINGS[1], 0, 0.8, 0.7), recorded(SETTINGS[1], 1, 0.9, 0.5)]
    trial = trial_of("parity", "full", runs)
    assert trial.seeds == (0, 1)
    assert trial.train == (0.8, 0.9)
    assert trial.scores(500) == (0.7, 0.5)
    assert trial.seconds == 6.0


def test_a_length_that_a_model_cannot_read_has_no_score():
    trial = trial_of("parity", "full", [recorded(SETTINGS[0], 0, 1.0, 1.0)], reads=100)
    assert trial.scores(500) is None
    assert trial.scores(10) is not None
    assert readable(TERMS.test_lengths, 100) == (10,)


def test_only_records_on_the_same_terms_make_a_trial():
    on, longer = recorded(SETTINGS[0], 0, 1.0, 1.0), Terms(31, TERMS.test_lengths, TERMS.words, TERMS.hidden)
    assert on_terms(on, TERMS)
    assert not on_terms(on, longer)
    assert [trial.model for trial in trials_of([on, recorded(SETTINGS[0], 0, 1.0, 1.0, model="rnn")], TERMS)] == [
        "full",
        "rnn",
    ]
    assert trials_of([on], longer) == []


def test_too_many_runs_are_refused():
    check_size(13, 30, 3)
    with pytest.raises(GridError, match="100,000 \\(tasks x models\\)"):
        check_size(1, 100_000, 3)
