"""The page of a store, as text: everything is inside it, escaped, and every number has its run."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from statewise.errors import RunError, StoreError, UnknownNameError
from statewise.machines import machine
from statewise.report.charts import Axis, Line, draw_chart, log_axis, score_axis, short_number
from statewise.report.entries import Subject, at_best_rate, read_runs, subject_of, thinned
from statewise.report.levels import ladder
from statewise.report.listing import listing
from statewise.report.page import write_page
from statewise.report.panels import additive_sheets, data_sheets, learning_sheets, length_sheets
from statewise.report.portraits import draw_angles, draw_portraits
from statewise.store import Store, key_of
from statewise.training.options import resolve
from tests.report.synthetic import fill, record_of

HOSTILE = [
    "<script>window.hacked=1</script>\"'`&",
    "x" * 300,
    "../../../etc/passwd",
    "</script><img src=x onerror=window.hacked=1>",
]


class Tags(HTMLParser):
    """Every element must be closed in the order in which it was opened."""

    VOID = {"meta", "link", "input", "br", "img"}  # noqa: RUF012

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        assert not any(name.startswith("on") for name in given)
        assert "src" not in given
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def config_of(**given):
    return resolve(None, {"task": "modular_addition(5)", "model": "full"} | given).model_dump(mode="json")


def page_of(directory, tmp_path, preset="quick"):
    file = tmp_path / "page.html"
    with Store.open(directory) as store:
        write_page(store, file, preset)
    return file.read_text(encoding="utf-8")


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A few runs of every grid."""
    directory = tmp_path_factory.mktemp("store")
    fill(directory, names=("figure2", "figure3", "figure4"))
    with Store.open(directory) as opened:
        yield opened


def test_an_empty_store_has_a_page(tmp_path):
    Store.open(tmp_path / "store", write=True).close()
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "holds no runs yet" in text
    assert "reproduce table-addition" in text
    assert data_of(text)["runs"] == []


def test_runs_outside_of_the_paper_have_a_page(tmp_path):
    configs = [config_of(task=task, seed=seed) for task in ("parity", "symmetric(3)") for seed in (0, 1)]
    failed = {"key": "ab" * 16, "status": "failed", "config": config_of(task="tomita(3)"), "reason": "out of <memory>"}
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([*map(record_of, configs), failed])
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "no runs of the paper’s tables" in text
    assert {run["s"] for run in data_of(text)["runs"]} >= {"failed"}
    assert "out of <memory>" not in text


def test_hostile_text_is_escaped_everywhere(tmp_path):
    records = []
    for number, name in enumerate(HOSTILE):
        config = config_of(seed=number) | {"task": name, "model": name, "recipe": name, "supervision": name}
        records.append(record_of(config_of(seed=number)) | {"config": config, "key": key_of(config), "commit": name})
        records.append({"key": key_of({"n": number}), "status": "failed", "config": config, "reason": name})
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records)
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    data = data_of(text)
    assert {(data["common"] | run.get("c", {}))["task"] for run in data["runs"]} == set(HOSTILE)


def test_nothing_is_fetched(store, tmp_path):
    text = page_of(store.directory, tmp_path)
    assert not re.search(r"(https?:)?//[a-z]", text.replace("// ", ""))
    assert "@import" not in text
    assert "url(" not in text


def test_every_link_leads_to_a_part_or_a_run(store, tmp_path):
    text = page_of(store.directory, tmp_path)
    tags = Tags(text)
    assert len(tags.ids) == len(set(tags.ids))
    places = set(tags.ids) | {f"run-{run['k']}" for run in data_of(text)["runs"]}
    inside = [link for link in tags.links if link.startswith("#")]
    assert len(inside) > 20
    assert {link[1:] for link in inside} <= places


def test_the_listing_gives_every_config_back(store):
    runs = read_runs(store.records())
    data = json.loads(str(listing(runs)))
    for run, row in zip(runs, data["runs"], strict=True):
        config = {name: value for name, value in data["common"].items() if name not in row.get("x", [])}
        assert config | row.get("c", {}) == run.config


def test_the_listing_takes_numbers_that_json_has_no_word_for():
    record = record_of(config_of()) | {"loss": float("nan"), "seconds": float("inf")}
    record["scores"][0]["score"] = float("nan")
    row = json.loads(str(listing(read_runs([record]))))["runs"][0]
    assert "l" not in row
    assert row["t"] == "inf"


def test_figures_are_drawn_from_their_runs(store):
    runs = read_runs(store.records())
    (data,), (additive,) = data_sheets(runs), additive_sheets(runs)
    assert {key.text for key in data.legend} >= {"full, statewise", "rnn, stated"}
    recipes = [(panel.title, panel.note.split(", ")[1]) for panel in additive.panels]
    assert recipes == [(m, f"{recipe} recipe") for recipe in ("stated", "statewise") for m in ("full", "block(2)")]
    assert {key.text for key in additive.legend} == {"no additive term", "constant term", "input term"}
    angles = draw_angles(store, runs)
    assert angles is not None
    assert angles.run.model == "rotation"
    # the weights were made of whole harmonics
    assert all(abs(circle.harmonic - round(circle.harmonic)) < 0.01 for circle in angles.circles)
    assert [circle.weight for circle in angles.circles] == sorted((c.weight for c in angles.circles), reverse=True)


def test_additive_terms_are_compared_with_runs_of_the_same_design_only():
    terms = [config_of(additive=term, task=f"modular_addition({m})") for term in ("none", "input") for m in (3, 5)]
    other = config_of(task="modular_addition(7)", late=0)
    (sheet,) = additive_sheets(read_runs(map(record_of, [*terms, other])))
    assert len(sheet.panels) == 1
    assert ">7<" not in sheet.panels[0].charts[0]


def test_frozen_networks_stand_beside_runs_with_additive_terms():
    runs = read_runs(map(record_of, [config_of(additive="input", task=f"modular_addition({m})") for m in (3, 5)]))
    rows = [
        {"additive": term, "examples": examples, "length": length, "draws": 20, "score": 0.5}
        for term in ("none", "input")
        for examples in (2, 200)
        for length in (10, 1_000)
    ]
    (sheet,) = additive_sheets(runs, rows)
    _, few, many = sheet.panels
    assert few.note == "parity, a readout fitted to 2 words, the median of 20 draws"
    assert "200 words" in many.note
    assert few.charts[0].count('class="line ') == 2
    assert {key.text for key in sheet.legend} == {"no additive term", "input term"}


def test_machines_are_read_out_of_kept_weights(tmp_path):
    from tests.report.synthetic import full_weights, rotation_weights

    made = {
        "rotation": (config_of(model="rotation"), rotation_weights),
        "full": (config_of(task="symmetric(3)"), full_weights),
        "machine": (config_of(task="random_machine(6, seed=1, kind=map)"), full_weights),
    }
    records = {name: record_of(config) for name, (config, _) in made.items()}
    for record in records.values():
        record["scores"] = [score | {"score": 1.0} for score in record["scores"]]
    weights = {records[name]["key"]: make(config) for name, (config, make) in made.items()}
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records.values(), weights)
        portraits = {p.run.task: p for p in draw_portraits(store, read_runs(store.records()))}
    assert set(portraits) == {config["task"] for config, _ in made.values()}
    for task, portrait in portraits.items():
        assert portrait.machine == machine(task)
        assert portrait.same
        assert portrait.faithful
        assert portrait.picture.count('class="state') == portrait.machine.states


def test_weights_that_fit_no_network_have_no_portrait(tmp_path):
    from safetensors.numpy import save

    record = record_of(config_of())
    record["scores"] = [score | {"score": 1.0} for score in record["scores"]]
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([record], {record["key"]: save({"other": np.zeros(3)})})
        assert draw_portraits(store, read_runs(store.records())) == []


def test_levels_say_what_they_tracked():
    good, bad = record_of(config_of()), record_of(config_of(seed=1))
    for record, score in ((good, 1.0), (bad, 0.2)):
        record["status"] = "done"
        record["scores"] = [{"length": 500, "score": score}]
    rungs = {rung.name: rung for rung in ladder(read_runs([good, bad, record_of(config_of(additive="input"))]))}
    assert list(rungs) == ["full", "cp", "block", "rotation", "diagonal", "positive"]
    (outcome,) = rungs["full"].outcomes
    assert (outcome.tracked, outcome.key) == (True, good["key"])
    assert rungs["cp"].outcomes == []


def test_the_best_rate_is_that_of_the_best_median():
    scores = {0.1: [1.0, 0.0, 0.0], 0.01: [0.4, 0.5, 0.6]}
    records = []
    for rate, some in scores.items():
        for seed, score in enumerate(some):
            record = record_of(config_of(lr=rate, seed=seed))
            records.append(record | {"scores": [{"length": 500, "score": score}]})
    assert [run.far for run in at_best_rate(read_runs(records))] == scores[0.01]
    assert at_best_rate(read_runs([record | {"scores": []} for record in records])) == []


@pytest.mark.parametrize(
    ("task", "subject"),
    [
        ("modular_addition(5)", Subject("modular addition", 5)),
        ("random_machine(10, seed=3, kind=map)", Subject("random machine (map)", 10)),
        ("parity", Subject("parity", None)),
        ("cyclic(4)*cyclic(6)", Subject("cyclic(4)*cyclic(6)", None)),
        ('regex("(ab)*")', Subject("regex ((ab)*)", None)),
        ("a <b> ((", Subject("a <b> ((", None)),
    ],
)
def test_tasks_that_differ_in_seeds_alone_are_one_subject(task, subject):
    assert subject_of(task) == subject


def test_curves_take_odd_histories():
    record = record_of(config_of())
    record["history"] = [
        {"step": 1, "loss": 0.0, "scores": [0.1, -0.25], "seconds": 0.0, "validation": None},
        {"step": 2, "loss": float("nan"), "scores": [0.1, float("nan")], "seconds": 0.0, "validation": None},
    ]
    once = record | {"history": record["history"][:1], "probe": [10, 20], "status": "diverged", "scores": []}
    for records in ([record], [once], [record, once], []):
        runs = read_runs(records)
        assert len(learning_sheets(runs)) == min(1, len(runs))
        assert len(length_sheets(runs)) == min(1, sum(bool(run.scores) for run in runs))
    assert list(thinned(range(100), 7))[-1] == 99
    assert len(thinned(range(100), 7)) <= 7


def test_charts_write_what_they_show():
    line = Line([(1.0, 0.0), (10.0, 1.0)], "c0", 'a "title" <b>')
    chart = str(
        draw_chart([line, Line([(2.0, 5.0)], "c1"), Line([], "c2")], log_axis([1, 10]), score_axis([0.0]), "<n>")
    )
    assert "&lt;b&gt;" in chart
    assert "&lt;n&gt;" in chart
    assert "nan" not in chart
    assert Axis(0.0, 1.0, ()).place(7.0) == 1
    assert [short_number(n) for n in (0.0, 0.01, 2e-6, 10, 2500, 10_000, 2e6)] == [
        "0", "0.01", "2e-6", "10", "2,500", "10k", "2M",
    ]  # fmt: skip


def test_colours_of_cells_leave_their_text_readable():
    from importlib import resources

    style = (resources.files("statewise.report") / "template" / "style.css").read_text()
    rules = re.findall(
        r"\.h\d+ \{ background: light-dark\((.*?), (.*?)\); color: light-dark\((.*?), (.*?)\); \}", style
    )
    assert len(rules) == 11
    for place in (0, 1):
        grounds = [_luminance(rule[place]) for rule in rules]
        # told apart by lightness alone
        assert grounds == sorted(grounds, reverse=place == 0)
        for rule in rules:
            low, high = sorted((_luminance(rule[place]), _luminance(rule[place + 2])))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_the_command_writes_the_page(tmp_path, capsys):
    from statewise.cli.report import report

    fill(tmp_path / "store", names=("figure4",))
    out = tmp_path / "deep" / "report.html"
    report(tmp_path / "store", out, json=True)
    assert json.loads(capsys.readouterr().out) == {"report": str(out), "runs": 3, "figures": []}
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(RunError, match="is not an"):
        report(tmp_path / "store", tmp_path / "report.pdf")
    with pytest.raises(StoreError, match="holds no store"):
        report(tmp_path / "nowhere", out)
    with pytest.raises(UnknownNameError, match='unknown preset "fast"'):
        report(tmp_path / "store", out, preset="fast")


def test_the_command_imports_no_torch_before_it_is_needed():
    import subprocess

    asked = "import sys; import statewise.cli.report; print('torch' in sys.modules, 'jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
