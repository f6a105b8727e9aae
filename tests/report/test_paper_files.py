"""Tables and figures of a store as files beside its page."""

import csv

import pytest

from statewise.commands.report import report
from statewise.errors import RunError
from statewise.papers import read_paper
from statewise.store import Store
from tests.report.synthetic import fill, record_of, rotation_weights

RUNS = read_paper().runs("figure4", "quick")
PICTURES = {"figure2", "figure2-short", "figure3", "figure3-right-2", "figure3-right-200", "figure4"}


def names(folder, ending):
    return {file.stem for file in folder.glob(f"*.{ending}")}


def test_every_figure_of_a_store_is_written_as_png_svg_and_numbers(tmp_path):
    fill(tmp_path / "store", ("figure2", "figure3"), every=2)
    records = [record_of(run) for run in RUNS]
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records, {record.key: rotation_weights(record.config) for record in records})
    out = tmp_path / "figures"
    report(tmp_path / "store", tmp_path / "page.html", figures=out)
    # the runs of Figure 4 are some of the table's, and the store's own results stand beside the paper's
    own = {name for name in names(out, "png") if name.startswith("results")}
    assert own
    assert names(out, "png") == names(out, "svg") == PICTURES | {"table-addition"} | own
    for name in ("table-addition", "figure2", "figure3", "figure3-right", "figure4", "figure4-planes"):
        with (out / f"{name}.csv").open() as lines:
            rows = list(csv.DictReader(lines))
        assert rows, name
        if name in ("table-addition", "figure2", "figure3"):
            assert any(row["constant"] for row in rows), name


def test_planes_are_drawn_only_where_weights_were_kept(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([record_of(run) for run in RUNS])
    report(tmp_path / "store", tmp_path / "page.html", figures=tmp_path / "figures")
    assert "figure4" in names(tmp_path / "figures", "csv")
    assert "figure4" not in names(tmp_path / "figures", "png")


def test_a_file_in_place_of_the_directory_is_refused_before_the_page(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(RunError, match="figures need a directory"):
        report(tmp_path / "store", tmp_path / "page.html", figures=tmp_path / "taken")
    assert not (tmp_path / "page.html").exists()
