"""Other people's protocols: their published rows, the semantics of their tasks, and their rules of scores."""

import re
from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest

from statewise.errors import UnknownNameError
from statewise.machines import machine
from statewise.papers import AtLength, MeanOverLengths, find_paper, lines_of, paper_names, read_paper, table_of
from statewise.papers.brackets import accuracy_at, bracket_depths
from statewise.papers.paper import PRESETS
from statewise.randomness import stream
from statewise.report.paper_figures import written_lines
from statewise.tasks import Drawn, Lengths, Task, build_source
from tests.papers.synthetic import record

GRAZZI, CHOMSKY = read_paper("grazzi2024"), read_paper("chomsky")
# a second transcription: columns are parity, arithmetic, brackets
TABLE3 = {
    "transformer(3)": (0.022, 0.031, 0.067),
    "mlstm(2)": (0.087, 0.040, 0.114),
    "slstm(3)": (1, 0.787, 0.178),
    "mamba(2)": (0, 0.095, 0.123),
    "mamba(2, eigenvalues=signed)": (1, 0.241, 0.116),
    "deltanet(2)": (0.017, 0.314, 0.194),
    "deltanet(3, negative=true)": (1, 0.971, 0.260),
}
# percent: cycle navigation, even pairs, arithmetic, parity
TABLE2 = {
    "lstm(2)": (100, 100, 99.9, 100),
    "slstm(2)": (32.5, 100, 27.7, 100),
    "mlstm(2)": (52.4, 99.9, 28.8, 53),
    "mamba(2)": (48.4, 100, 33.1, 54.2),
    "deltanet(2, negative=true)": (46.7, 100, 66.4, 97.7),
    "slice(4, layers=2)": (99.8, 85.9, 54, 95.3),
}


@pytest.mark.parametrize(("model", "scores"), TABLE3.items())
def test_table_3_is_that_of_a_second_transcription(model: str, scores: tuple[float, ...]) -> None:
    for column, score in zip(("parity", "arithmetic", "brackets"), scores, strict=True):
        found = GRAZZI.published("grazzi-table3", model, column)
        assert found is not None
        assert found.score == score
        assert found.where.startswith("Table 3")
    assert GRAZZI.published("grazzi-table3", "full", "parity") is None


@pytest.mark.parametrize(("model", "percent"), TABLE2.items())
def test_accuracies_in_percent_become_scores_that_are_0_at_chance(model: str, percent: tuple[float, ...]) -> None:
    classes = {"cycle navigation": 5, "even pairs": 2, "arithmetic": 5, "parity": 2}
    for (column, m), accuracy in zip(classes.items(), percent, strict=True):
        found = CHOMSKY.published("chomsky-regular", model, column)
        assert found is not None
        assert found.score == pytest.approx((accuracy / 100 - 1 / m) / (1 - 1 / m))


def test_what_can_be_repeated_has_one_name_over_all_papers() -> None:
    names = [name for paper in paper_names() for name in read_paper(paper).names()]
    assert len(names) == len(set(names))
    assert paper_names()[0] == "ebrahimi2025"
    for paper in paper_names():
        for name in read_paper(paper).names():
            assert find_paper(name) == read_paper(paper)


def test_an_unknown_name_lists_all_by_paper() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_paper("zzzz")
    said = str(caught.value)
    assert re.search(r"of ebrahimi2025: table-addition, .*; of chomsky: chomsky-regular; of grazzi2024: grazzi-", said)
    assert "\n" not in said


@pytest.mark.parametrize("paper", [GRAZZI, CHOMSKY], ids=["grazzi", "chomsky"])
def test_every_published_number_of_a_model_stands_beside_some_run(paper) -> None:
    for row in paper.published_rows:
        planned = {planned.model for preset in PRESETS for planned in paper.plan(row.table, preset)}
        assert set(row.models) <= planned
        assert set(row.scores) == set(paper.columns(row.table, "paper"))


@pytest.mark.parametrize("name", ["grazzi-table3", "chomsky-regular"])
def test_models_of_a_column_differ_in_rate_readout_and_loss_alone(name: str) -> None:
    paper = find_paper(name)
    may = {"task", "model", "lr", "readout", "loss"}
    for column in paper.columns(name, "quick"):
        cells = [cell for row in paper.plan(name, "quick") for cell in row.cells if cell.column == column]
        runs = [run for cell in cells for run in cell.runs]
        assert len({tuple((key, value) for key, value in run if key not in may) for run in runs}) == 1
        assert {len(cell.runs) for cell in cells} == {2}
        assert {run.supervision for run in runs} == {"closed" if column in ("arithmetic", "brackets") else "final"}
        assert (runs[0].shortest, runs[0].longest) == (3, 40)
        # no length of the test is trained on, and what has odd lengths is tested on odd ones
        assert all(40 < length <= 256 for length in runs[0].test_lengths)
        assert all(length % 2 == 1 for length in runs[0].test_lengths) or runs[0].stride == 1
        assert len(runs[0].test_lengths) >= 18


def test_preset_paper_tests_every_length() -> None:
    by_column = {
        cell.column: cell.runs[0].test_lengths for row in GRAZZI.plan("grazzi-table3", "paper") for cell in row.cells
    }
    assert by_column["parity"] == by_column["brackets"] == tuple(range(41, 257))
    assert by_column["arithmetic"] == tuple(range(41, 257, 2))


def test_tasks_that_two_papers_share_are_run_once() -> None:
    ours, others = (
        {run.key() for run in paper.runs(name, "quick") if run.task == "parity"}
        for paper, name in ((GRAZZI, "grazzi-table3"), (CHOMSKY, "chomsky-regular"))
    )
    assert ours == others


def written(alphabet: tuple[str, ...], tokens: np.ndarray) -> str:
    return "".join(alphabet[token] for token in tokens).replace("x", "*")


def test_the_suite_s_examples() -> None:
    arithmetic = machine("modular_arithmetic(5, precedence=true)")
    for word, value in (("1+2x3", 2), ("1-1-1", 4), ("0x1+4x3-2", 0)):
        state = arithmetic.track(np.array([[arithmetic.alphabet.index(symbol) for symbol in word]]))[0, -1]
        assert arithmetic.output_names[arithmetic.outputs[state]] == str(value)
    ring = machine("cycle_navigation(5)")
    # forward, back, stay, back, back is position 3
    assert ring.outputs[ring.track(np.array([[1, 2, 0, 2, 2]]))[0, -1]] == 3


def test_expressions_have_the_value_that_python_gives_them() -> None:
    task = Task(machine("modular_arithmetic(5, precedence=true)"), Lengths(3, 40, stride=2), "closed")
    batch = task.batch(0, 0, 200)
    for row, length, value in zip(batch.tokens, batch.lengths - 1, batch.finals, strict=True):
        assert length % 2 == 1
        assert row[length] == task.machine.symbols
        assert eval(written(task.machine.alphabet, row[:length])) % 5 == value


def test_parity_pairs_and_rings_are_what_counting_gives() -> None:
    for name in ("parity", "even_pairs", "cycle_navigation(5)"):
        built = machine(name)
        for word, output in zip(
            *(lambda batch: (batch.tokens, batch.finals))(Task(built).test(0, 17, 50)), strict=True
        ):
            odd = sum(a != b for a, b in pairwise(word)) % 2
            moves = sum({0: 0, 1: 1, 2: -1}[move] for move in word.tolist()) % 5
            expected = {"parity": str(word.sum() % 2), "even_pairs": str(1 - odd)}.get(name, str(moves))
            assert built.output_names[output] == expected


@pytest.mark.parametrize("multiply", [True, False])
def test_bracketed_expressions_are_balanced_and_have_their_length_and_value(multiply: bool) -> None:
    source = build_source(f"bracket_arithmetic(5, multiply={str(multiply).lower()})")
    lengths = np.arange(1, 120)
    drawn = source.draw(stream(0, "brackets"), lengths)
    assert isinstance(drawn, Drawn)
    for row, length, outputs in zip(drawn.tokens, lengths, drawn.outputs, strict=True):
        text = written(source.alphabet, row[:length])
        depths = np.cumsum([{"(": 1, ")": -1}.get(symbol, 0) for symbol in text])
        assert depths[-1] == 0
        assert depths.min() >= 0
        assert len(text) == length
        assert not row[length:].any()
        assert eval(text) % 5 == outputs[length - 1]
        assert multiply or "*" not in text
    # brackets are around every operation: there is no precedence
    assert re.fullmatch(r"\(-?\d[-+*]-?\d\)|\(-?\d\)|-?\d|\(.*\)", written(source.alphabet, drawn.tokens[40, :41]))


def test_the_sides_of_a_bracket_are_of_uniform_length_and_operators_too() -> None:
    source = build_source("bracket_arithmetic(5)")
    drawn = source.draw(stream(1, "brackets"), np.full(9_000, 6))
    shapes = [re.sub(r"\d", "d", written(source.alphabet, row)) for row in drawn.tokens]
    left = sum(re.fullmatch(r"\(-d[-+*]d\)", shape) is not None for shape in shapes)
    assert abs(left - 4_500) < 5 * 2_250**0.5
    for operator in "+-*":
        count = sum(shape in (f"(-d{operator}d)", f"(d{operator}-d)") for shape in shapes)
        assert abs(count - 3_000) < 5 * 2_000**0.5


def cut(text: str, kept: int) -> str:
    """Replace every bracket that lies deeper than so many others by 0."""
    shown, depth = "", 0
    for symbol in text:
        depth += symbol == "("
        shown += ("0" if symbol == "(" and depth == kept + 1 else "") if depth > kept else symbol
        depth -= symbol == ")"
    return shown


@pytest.mark.parametrize("kept", [0, 1, 2, 4])
def test_the_score_of_finitely_many_brackets_is_what_sampling_finds(kept: int) -> None:
    source = build_source("bracket_arithmetic(5)")
    drawn = source.draw(stream(2, "brackets", kept), np.full(3_000, 45))
    texts = [written(source.alphabet, row) for row in drawn.tokens]
    right = fmean(eval(cut(text, kept)) % 5 == value for text, value in zip(texts, drawn.outputs[:, -1], strict=True))
    expected = accuracy_at(45, kept)
    assert abs(right - expected) < 5 * (expected * (1 - expected) / 3_000) ** 0.5


def test_on_brackets_published_scores_at_the_constant_answer_are_seen_as_such() -> None:
    rows = bracket_depths(41, 256)
    assert [row.stacks for row in rows[:3]] == [1, 17, 273]
    scores = [row.score for row in rows]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(0.132, abs=5e-4)
    for model in ("mlstm(3)", "mamba(3)", "mamba(3, eigenvalues=signed)", "transformer(3)"):
        found = GRAZZI.published("grazzi-table3", model, "brackets")
        assert found is not None
        assert found.score < scores[0]
    # expressions of up to 4 symbols have one bracket at most
    assert accuracy_at(4, 1) == pytest.approx(1)


def test_a_score_is_the_mean_over_the_lengths_that_count() -> None:
    run = GRAZZI.runs("grazzi-table3", "quick")[0].change(test_lengths=(40, 41, 100, 256, 300))
    scores = [
        {"length": length, "score": score, "count": 100, "classes": 2, "majority": 0.55, "accuracy": (1 + score) / 2}
        for length, score in zip(run.test_lengths, (0.0, 1.0, 0.6, 0.2, 0.0), strict=True)
    ]
    found = record(run, 1.0, scores=scores)
    mean = MeanOverLengths(first=41, last=256)
    assert mean.score(found) == pytest.approx(0.6)
    assert mean.constant(found) == pytest.approx(0.1)
    # three errors of 0, 0.08 and 0.098 in score
    assert mean.standard_error(found) == pytest.approx(((4 * 0.8 * 0.2 + 4 * 0.6 * 0.4) / 100) ** 0.5 / 3)
    one = AtLength(length=100)
    assert (one.score(found), one.longest, mean.longest) == (0.6, 100, 256)
    assert mean.score(record(run, 1.0, scores=[])) == 0


def test_a_table_has_means_over_lengths_and_the_best_of_the_seeds_beside_the_published_numbers() -> None:
    runs = [run for run in GRAZZI.runs("grazzi-table3", "paper") if run.model == "deltanet(2)"]
    records = []
    for run in runs:
        scores = [{"length": n, "score": 0.1 * (run.seed + 1) if n < 149 else 0.0} for n in run.test_lengths]
        records.append(record(run, 0.0, inside=1.0 if run.lr == 1e-3 else 0.5, scores=scores))
    table = table_of(GRAZZI, "grazzi-table3", "paper", records)
    line = next(line for line in lines_of(table) if line.model == "deltanet(2)")
    cell = line.cells["cross-entropy"]
    # half of the lengths score 0.1, 0.2 and 0.3
    assert cell.scores == pytest.approx((0.05, 0.1, 0.15))
    assert (cell.best, cell.median) == pytest.approx((0.15, 0.1))
    assert line.published == 0.017
    assert "216 lengths of 100 sequences" in cell.budget
    written_row = next(row for row in written_lines(table) if row["model"] == "deltanet(2)")
    assert written_row["paper"] == 0.017
    assert written_row["cross-entropy_test"] == pytest.approx(0.15)
