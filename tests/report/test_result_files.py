"""Figures and tables of any store: the numbers of its page, each beside the best constant answer."""

import csv
import re

import pytest

from statewise.commands.report import report
from statewise.report.figure import plain_text
from statewise.report.result_files import CURVES, NAME
from statewise.store import Store
from tests.report.test_page import HOSTILE, options_of
from tests.report.test_results import record

TASKS = ("modular_addition(5)", "tomita(4)")


def written(tmp_path, *records):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records)
    found = report(tmp_path / "store", tmp_path / "page.html", figures=tmp_path / "figures")
    assert {file.name for file in found.figures} == {file.name for file in (tmp_path / "figures").iterdir()}
    return tmp_path / "figures"


def rows_of(folder):
    with (folder / f"{NAME}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_any_store_has_a_table_a_heat_map_and_curves(tmp_path):
    made = [
        record(model=model, task=task, seed=seed) for model in ("full", "lstm") for task in TASKS for seed in (0, 1)
    ]
    folder = written(tmp_path, *made)
    assert {file.name for file in folder.iterdir()} == {
        f"{NAME}.csv", f"{NAME}.tex", f"{NAME}.png", f"{NAME}.svg", f"{CURVES}.png", f"{CURVES}.svg",
    }  # fmt: skip
    assert [(row["task"], row["model"], row["seeds"]) for row in rows_of(folder)] == [
        (task, model, "2") for task in TASKS for model in ("full", "lstm")
    ]


def test_a_row_has_its_setting_its_training_and_its_verdict(tmp_path):
    made = [record(0.9, 0.2, lr=0.1, majority=0.6), record(0.8, 1.0, lr=0.01, majority=0.6)]
    (row,) = rows_of(written(tmp_path, *made))
    assert (row["setting"], row["settings"], row["training_lengths"]) == ("rate 0.1", "2", "2 to 10, curriculum")
    assert (row["steps"], row["verdict"]) == ("2,000", "wrong on training lengths")
    assert (float(row["score_500"]), float(row["constant_500"]), row["learned_500"]) == (
        0.2,
        pytest.approx(0.5),
        "False",
    )


def test_every_score_of_a_table_stands_beside_its_constant(tmp_path):
    names = list(rows_of(written(tmp_path, record()))[0])
    scores = [name for name in names if name.startswith("score_")]
    assert scores == ["score_training", "score_10", "score_500"]
    assert all(name.replace("score", "constant") in names for name in scores)


def test_a_table_for_latex_has_as_many_cells_in_every_row_and_no_bare_special_letter(tmp_path):
    hostile = [
        record(seed=number).model_copy(update={"config": options_of().change(task=name, model=name)})
        for number, name in enumerate([*HOSTILE, "50% of $x_1$ & #~^{}\\"])
    ]
    folder = written(tmp_path, record(), *(one.with_key(one.config.key()) for one in hostile))
    text = (folder / f"{NAME}.tex").read_text(encoding="utf-8")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    wide = {len(re.findall(r"(?<!\\)&", line)) for line in body if "multicolumn" not in line}
    assert wide == {11}
    for line in body:
        plain = re.sub(
            r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater)\{\}|\$\\pm\$|\$-\$", "", line
        )
        assert not re.search(r"(?<!\\)[$#%_^~]", plain), plain


def test_names_in_figures_are_neither_formulas_nor_hidden():
    assert plain_text("a $x$") == r"a \$x\$"
    assert not plain_text("_own.py:Net").startswith("_")
    assert len(plain_text("x" * 300)) <= 60


def test_a_store_without_scores_has_a_table_and_no_picture(tmp_path):
    folder = written(tmp_path, record(changed={"scores": [], "in_distribution": None}))
    assert {file.name for file in folder.iterdir()} == {f"{NAME}.csv", f"{NAME}.tex"}


def test_an_empty_store_has_an_empty_table(tmp_path):
    folder = written(tmp_path)
    assert rows_of(folder) == []


def test_very_many_tasks_make_several_pictures(tmp_path):
    folder = written(tmp_path, *(record(task=f"cyclic({n})") for n in range(2, 16)))
    assert {f"{NAME}-1.png", f"{NAME}-2.png", f"{CURVES}-1.png", f"{CURVES}-2.png"} <= {
        f.name for f in folder.iterdir()
    }
