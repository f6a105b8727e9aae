"""The command, on stores that hold all records already, and the page that is written from records."""

import csv
import gzip
import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from statewise.commands.reproduce import reproduce
from statewise.errors import RunError, UnknownNameError
from statewise.papers import find_paper, paper_names, read_paper
from statewise.papers.facts import FrozenScore
from statewise.report.paper_figures import draw_frozen_parity, write_figure
from statewise.store import Store, read_records
from tests.command import statewise
from tests.papers.synthetic import record
from tests.report.synthetic import rotation_weights

PAPER = read_paper()


def filled(directory: Path, name: str, score: float) -> Path:
    runs = find_paper(name).runs(name, "quick")
    small = {run.key(): rotation_weights(run) for run in runs} if name == "figure4" else {}
    with Store.open(directory, write=True) as store:
        store.add([record(run, score) for run in runs], small)
    return directory


def test_a_table_that_is_all_in_the_store_is_shown_without_a_run(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "table-addition", 1.0)
    result = reproduce("table-addition", store=store, out=tmp_path / "out")
    shown = json.loads(json.dumps(result.to_dict()))
    assert not result.failed
    assert shown["runs"]["ran"] == 0
    assert len(shown["rows"]) == len(PAPER.plan("table-addition", "quick"))
    full = next(row for row in shown["rows"] if (row["model"], row["reading"]) == ("full", "statewise"))
    assert [cell["verdict"] for cell in full["cells"]] == ["agrees"] * 6
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"table-addition.csv", "table-addition-cells.csv", "table-addition.png", "table-addition.svg"} <= files
    text = str(result)
    split = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    heading, rotations = (line for line in split if line[0] in ("model", "rotations (R2)"))
    assert heading[:6] == ["model", "m", "paper", "letter", "normalised", "squared"]
    assert heading[6:] == ["ours 500", "ours 10,000", "ours polished", "ours proven", "ceiling"]
    assert rotations == ["rotations (R2)", "2", "1.00", *["1.00 ="] * 4, "1.00", "–", "–", "1.00"]
    assert "-0.00" not in text
    assert "above the paper" in text
    with (tmp_path / "out" / "table-addition.csv").open() as lines:
        written = [row for row in csv.DictReader(lines) if (row["model"], row["m"]) == ("rotation", "25")]
    assert [(row["paper"], row["squared_test"], row["ceiling"]) for row in written] == [("0.37", "1.0", "1.0")]


def test_equal_terms_have_a_table_of_tasks(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "losses", 1.0)
    result = reproduce("losses", store=store, out=tmp_path / "out")
    assert {"losses.csv", "losses.png"} <= {file.name for file in (tmp_path / "out").iterdir()}
    assert result.to_dict()["column"] == "task"
    assert "permutations 10" in str(result)
    assert "does not survive" in str(result)


def test_another_paper_s_table_is_found_by_its_name(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "grazzi-table3", 1.0)
    result = reproduce("grazzi-table3", store=store, out=tmp_path / "out")
    assert result.to_dict()["runs"]["ran"] == 0
    split = [re.split(r" {2,}", line.strip()) for line in str(result).splitlines()]
    heading, signed = (line for line in split if line[0] in ("model", "DeltaNet, layers: 2, [-1, 1]"))
    assert heading[:5] == ["model", "task", "paper", "cross-entropy training", "cross-entropy 41 to 256"]
    assert heading[-2:] == ["constant", "ceiling"]
    assert signed == ["DeltaNet, layers: 2, [-1, 1]", "parity", "1.00", "1.00", "1.00 =", "–", "–", "0.00", "–"]
    with (tmp_path / "out" / "grazzi-table3.csv").open() as lines:
        rows = {(row["model"], row["task"]): row for row in csv.DictReader(lines)}
    assert rows["deltanet(2)", "brackets"]["paper"] == "0.194"
    assert rows["full", "brackets"]["ceiling"] == ""
    assert (tmp_path / "out" / "grazzi-table3.png").stat().st_size > 1000


def test_figure4_reads_planes_out_of_the_weights(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "figure4", 1.0)
    shown = reproduce("figure4", store=store, out=tmp_path / "out").to_dict()
    # the weights were made of whole harmonics
    assert all(row["off"] < 1e-5 for row in shown["parts"])
    assert {row["character"] for row in shown["parts"]} == {1, 2, 3, 4, 5}
    trained, polished = ([row for row in shown["parts"] if row["stage"] == s] for s in ("trained", "polished"))
    weights = [row["weight"] for row in trained[:32]]
    assert weights == sorted(weights, reverse=True)
    assert len(trained) == 5 * 32
    # planes that repeat others are left out
    assert 0 < len(polished) <= 5 * 5
    assert all(row["off"] < 1e-9 for row in polished)
    files = {file.name for file in (tmp_path / "out").iterdir()}
    written = {"figure4.csv", "figure4-cells.csv", "figure4-planes.csv", "figure4.jsonl.gz"}
    assert files == written | {"figure4.png", "figure4.svg"}


def test_the_records_behind_a_table_fill_another_store_with_it(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "figure4", 1.0)
    shown = reproduce("figure4", store=store, out=tmp_path / "out").to_dict()
    with Store.open(tmp_path / "copy", write=True) as copy:
        copy.add(list(read_records(tmp_path / "out" / "figure4.jsonl.gz")), {})
    assert reproduce("figure4", store=tmp_path / "copy").to_dict()["rows"] == shown["rows"]


def test_the_command_prints_what_the_function_returns(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "figure4", 1.0)
    done = statewise("reproduce", "figure4", "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == reproduce("figure4", store=store).to_dict()


def test_a_file_in_place_of_a_directory_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(RunError, match="is a file"):
        reproduce("figure4", store=tmp_path / "store", out=tmp_path / "out")
    assert not (tmp_path / "store").exists()


def test_figure2_is_drawn_against_the_number_of_training_sequences(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", "figure2", 0.5)
    shown = reproduce("figure2", store=store, out=tmp_path / "out").to_dict()
    assert shown["column"] == "samples"
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"figure2.svg", "figure2.png", "figure2-short.svg", "figure2-short.png", "figure2.csv"} <= files
    assert "unseen sequences" in (tmp_path / "out" / "figure2-short.svg").read_text()
    reproduce("figure2", store=store, out=tmp_path / "again")
    for file in (tmp_path / "out").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), "the same records, the same files"


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    shown = reproduce("table-machine", store=tmp_path / "none", dry_run=True).to_dict()
    assert shown["rows"] == []
    assert shown["runs"]["to_run"] == len(PAPER.runs("table-machine", "quick", slow=False))
    assert not (tmp_path / "none").exists()


def test_what_is_computed_needs_no_store(tmp_path: Path) -> None:
    shown = reproduce("parity", out=tmp_path).to_dict()
    assert [row["hidden"] for row in shown["rows"]] == list(range(1, 11))
    assert {file.name for file in tmp_path.iterdir()} == {"parity.csv", "parity.png", "parity.svg"}
    assert "16,777,216" in str(reproduce("parameters"))
    assert "nothing to train" in str(reproduce("parameters", dry_run=True))


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match='did you mean "table-addition"'):
        reproduce("table-adition", store=tmp_path)
    with pytest.raises(UnknownNameError, match="preset"):
        reproduce("parity", preset="fast")
    with pytest.raises(RunError, match="--store"):
        reproduce("figure2")


def test_frozen_networks_are_drawn(tmp_path: Path) -> None:
    rows = [
        FrozenScore(terms, examples=2, length=length, draws=1, score=0.5, low=0.4, high=0.6)
        for terms in ("none", "constant", "input")
        for length in (10, 100)
    ]
    files = write_figure(tmp_path, "right", draw_frozen_parity(rows, 2))
    assert all(file.stat().st_size > 1000 for file in files)


def maker() -> ModuleType:
    docs = str(Path(__file__).parents[2] / "docs")
    sys.path.insert(0, docs)
    try:
        return importlib.import_module("make_reproduction")
    finally:
        sys.path.remove(docs)


def whole(folder: Path) -> str:
    return "\n".join(maker().pages(folder).values())


def test_the_pages_say_what_was_not_run(tmp_path: Path) -> None:
    others = sum(len(read_paper(paper).names()) for paper in paper_names()[1:])
    # every page, the computed parts of two figures, and the summary
    assert whole(tmp_path).count("Not run.") == len(PAPER.names()) + 3 + others


def test_the_pages_show_partial_records_with_reasons(tmp_path: Path) -> None:
    runs = [run for run in PAPER.runs("table-addition", "quick") if run.model in ("rotation", "full")]
    records = [record(run, 1.0 if run.recipe == "statewise" else 0.0) for run in runs]
    with gzip.open(tmp_path / "some.jsonl.gz", "wt") as lines:
        lines.writelines(one.to_json() + "\n" for one in records)
    (tmp_path / "figure4-planes.csv").write_text("seed,harmonic\n0,3.00001\n")
    shown = whole(tmp_path)
    assert "## Preset quick" in shown
    assert "## Preset paper" not in shown
    assert "| 0 | 3.0000 |" in shown
    assert "drift: 1.00 on training lengths, 0.00 at 500" in shown.replace("Drift", "drift")
    assert "| 25 | 0.37 | 0.00\u00a0↓ | 0.00\u00a0↓ | 0.00\u00a0↓ | 1.00\u00a0↑ | 1.00 | – | – | 1.00 |" in shown
    # rotations and full networks, without m = 2
    assert "| its protocol, squared error | 0 of 8 |" in shown
    assert "| ours | 8 of 8 | `full` 5, `rotation` 3 |" in shown


def test_readme_has_a_table_of_records_between_its_marks(tmp_path: Path) -> None:
    made = maker()
    text = "# A\n\n<!-- table -->\nold\n<!-- end -->\nafter"
    assert made.readme(text, tmp_path) == text
    runs = [run for name in made.TABLES for run in PAPER.runs(name, "quick") if run.model == "full"]
    solved = {"status": "converged", "horizon": 3 * 10**12, "scores": [{"length": 10_000, "score": 1.0}]}
    records = [record(run, 0.5, **({"polished": solved} if run.polish else {})) for run in runs]
    with gzip.open(tmp_path / "some.jsonl.gz", "wt") as lines:
        lines.writelines(one.to_json() + "\n" for one in records)
    shown = made.readme(text, tmp_path)
    rows = [line for line in shown.splitlines() if line.startswith("| modular") or line.startswith("| random")]
    # two models were not run, and are not in the paper
    assert len(rows) == 10
    half = "0.50 / 0.50"
    assert rows[0] == (
        f"| modular addition | full bilinear | 1.00 / 1.00 | {half} | {half} | {half} | {half} "
        "| 1.00 / 1.00 | 3.0e12 / 3.0e12 |"
    )
    # the paper's number stands where nothing was run
    assert rows[4].startswith("| modular addition | LSTM | 0.98 / 0.00 | – / – |")
    assert shown.endswith("<!-- end -->\nafter")
    assert "old" not in shown


def test_the_page_says_how_long_runs_took_by_the_clock_if_they_were_done_without_a_pause() -> None:
    planned = PAPER.runs("figure4", "quick")
    runs = [record(run, 1.0, seconds=120.0, shared=n + 1, finished=130.0) for n, run in enumerate(planned[:2])]
    assert maker()._cost(runs) == "The 2 runs took 3 minutes of one core, and 2 by the clock, on a shared machine."
    later = [runs[0], record(planned[1], 1.0, seconds=120.0, shared=2, finished=86_400.0)]
    assert maker()._cost(later) == "The 2 runs took 3 minutes of one core, on a shared machine."
    assert maker()._cost([]) == ""


def test_the_pages_are_what_the_records_give() -> None:
    made = maker()
    written = {made.PAGE, made.AUDIT_PAGE, *made.PARTS.glob("*.md")}
    pages = made.pages(made.RECORDS)
    assert pages.keys() == written
    for file, text in pages.items():
        assert file.read_text(encoding="utf-8") == text, file
    # a summary is one screen
    assert len(made.PAGE.read_text(encoding="utf-8").splitlines()) < 60
