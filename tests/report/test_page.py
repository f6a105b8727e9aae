"""The page of a store, as text: everything is inside it, escaped, and every number has its run."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from statewise.commands.report import report
from statewise.errors import RunError, StoreError, UnknownNameError
from statewise.machines import machine
from statewise.models import LEVELS
from statewise.papers.facts import FrozenScore
from statewise.report.angles import draw_angles
from statewise.report.charts import Axis, Line, draw_chart, log_axis, score_axis, short_number
from statewise.report.entries import Subject, at_best_rate, read_entries, subject_of, thinned
from statewise.report.hierarchy import summarise_levels
from statewise.report.listing import listing
from statewise.report.page import write_page
from statewise.report.panels import additive_sheets, data_sheets, learning_sheets, length_sheets
from statewise.report.portraits import draw_portraits
from statewise.store import Store
from statewise.training import resolve
from tests.report.synthetic import (
    failed_record,
    fill,
    full_weights,
    record_of,
    rotation_weights,
    saved,
    untrained_weights,
)

HOSTILE = [
    "<script>window.hacked=1</script>\"'`&",
    "x" * 300,
    "../../../etc/passwd",
    "</script><img src=x onerror=window.hacked=1>",
]


class Tags(HTMLParser):
    """Every element must be closed in the order in which it was opened."""

    VOID = {"meta", "link", "input", "br", "img", "wbr"}  # noqa: RUF012

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


def options_of(**given):
    return resolve({"task": "modular_addition(5)", "model": "full"} | given)


def hostile_records(first_seed):
    """Records with names that nobody should give, of runs that ended and of runs that failed."""
    for number, name in enumerate(HOSTILE):
        options = options_of(seed=first_seed + number).change(task=name, model=name)
        yield record_of(options, commit=name, versions={name: name})
        yield failed_record(options.change(steps=1), name)


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
    runs = [options_of(task=task, seed=seed) for task in ("parity", "symmetric(3)") for seed in (0, 1)]
    failed = failed_record(options_of(task="tomita(3)"), "out of <memory>")
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([*map(record_of, runs), failed])
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "The paper’s" not in text
    assert "statewise reproduce" not in text
    assert {run["s"] for run in data_of(text)["runs"]} >= {"failed"}
    assert "out of <memory>" not in text


def test_hostile_text_is_escaped_everywhere(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(list(hostile_records(0)))
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
    entries = read_entries(store.records())
    # one of them has an option that the others have not
    entries += read_entries([record_of(options_of(source="0" * 64))])
    data = json.loads(str(listing(entries)))
    for entry, row in zip(entries, data["runs"], strict=True):
        config = {name: value for name, value in data["common"].items() if name not in row.get("x", [])}
        assert config | row.get("c", {}) == entry.options.to_dict()


def test_the_listing_leaves_out_what_was_not_recorded():
    options = options_of()
    row = json.loads(str(listing(read_entries([failed_record(options, "no memory")]))))["runs"][0]
    assert row == {"k": options.key(), "s": "failed", "v": 0, "e": "no memory"}


def test_figures_are_drawn_from_their_runs(store):
    entries = read_entries(store.records())
    (data,), (additive,) = data_sheets(entries), additive_sheets(entries)
    assert {key.text for key in data.legend} == {"full, H 64", "full, H 8", "block(2)", "rotation", "rnn", "lstm"}
    trained = ["stated recipe", "stated recipe, state normalised", "stated recipe, squared error", "statewise recipe"]
    assert [panel.note for panel in data.panels] == trained
    found = {(panel.title, panel.note.split(", ", 1)[1].split(", H")[0]) for panel in additive.panels}
    assert found == {(model, training) for model in ("full", "block(2)") for training in trained}
    assert {key.text for key in additive.legend} == {"no additive term", "constant term", "input term"}
    angles = draw_angles(store, entries)
    assert angles is not None
    assert angles.entry.options.model == "rotation"
    # the weights were made of whole harmonics
    assert all(abs(circle.harmonic - round(circle.harmonic)) < 0.01 for circle in angles.circles)
    assert [circle.weight for circle in angles.circles] == sorted((c.weight for c in angles.circles), reverse=True)


def test_additive_terms_are_compared_with_runs_of_the_same_design_only():
    terms = [options_of(additive=term, task=f"modular_addition({m})") for term in ("none", "input") for m in (3, 5)]
    other = options_of(task="modular_addition(7)", late=40)
    (sheet,) = additive_sheets(read_entries(map(record_of, [*terms, other])))
    assert len(sheet.panels) == 1
    assert ">7<" not in sheet.panels[0].charts[0]


def test_frozen_networks_stand_beside_runs_with_additive_terms():
    runs = [options_of(additive="input", task=f"modular_addition({m})") for m in (3, 5)]
    rows = [
        FrozenScore(term, examples, length, draws=20, score=0.5, low=0.4, high=0.6)
        for term in ("none", "input")
        for examples in (2, 200)
        for length in (10, 1_000)
    ]
    (sheet,) = additive_sheets(read_entries(map(record_of, runs)), rows)
    _, few, many = sheet.panels
    assert few.note == "parity, a readout fitted to 2 sequences, the median of 20 draws"
    assert "200 sequences" in many.note
    assert few.charts[0].count('class="line ') == 2
    assert {key.text for key in sheet.legend} == {"no additive term", "input term"}


def tracked(options):
    """A record of a run that tracks its machine to every length."""
    return record_of(options, status="done", scores=[{"length": n, "score": 1.0} for n in options.test_lengths])


def test_machines_are_extracted_from_kept_weights(tmp_path):
    made = {
        options_of(model="rotation").key(): (options_of(model="rotation"), rotation_weights),
        options_of(task="symmetric(3)").key(): (options_of(task="symmetric(3)"), full_weights),
    }
    drawn = options_of(task="random_machine(6, seed=1, kind=map)")
    made[drawn.key()] = drawn, full_weights
    weights = {key: make(options) for key, (options, make) in made.items()}
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([tracked(options) for options, _ in made.values()], weights)
        portraits = {p.entry.options.task: p for p in draw_portraits(store, read_entries(store.records()))}
    assert set(portraits) == {options.task for options, _ in made.values()}
    for task, portrait in portraits.items():
        assert portrait.machine == machine(task)
        assert portrait.same
        assert portrait.faithful in ("proven", "tested")
        assert portrait.picture.count('class="state') == portrait.machine.states


def test_machines_of_networks_with_an_embedding_are_extracted_too(tmp_path):
    options = options_of(model="rotation", embedding=7)
    weights = untrained_weights(options)
    angles, planes = 2 * np.pi / 5 * np.arange(5), options.hidden // 2
    # symbols are embedded in the last of 7 entries, in reverse order
    weights["embeddings"] = np.eye(5, 7)[:, ::-1]
    weights["transition.weight"] = np.tile(np.concatenate([[0.0, 0.0], angles[::-1]]), (planes, 1))
    weights["initial_state"] = np.tile([1.0, 0.0], planes)
    weights["readout"] = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=-1), planes)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([tracked(options)], {options.key(): saved(weights)})
        (portrait,) = draw_portraits(store, read_entries(store.records()))
    assert portrait.same


def test_weights_that_fit_no_network_have_no_portrait(tmp_path):
    options = options_of()
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([tracked(options)], {options.key(): saved({"other": np.zeros(3)})})
        assert draw_portraits(store, read_entries(store.records())) == []


def test_a_page_imports_no_class_of_a_user(tmp_path):
    (tmp_path / "own.py").write_text("raise SystemExit('imported')\n")
    options = options_of().change(model=f"{tmp_path / 'own.py'}:Own")
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([tracked(options)], {options.key(): saved({"weight": np.zeros(3)})})
    assert "own.py" in page_of(tmp_path / "store", tmp_path)


def test_levels_show_what_they_tracked():
    scores = [[{"length": 500, "score": score}] for score in (1.0, 0.2)]
    good, bad = (record_of(options_of(seed=n), status="done", scores=some) for n, some in enumerate(scores))
    other = record_of(options_of(additive="input"))
    levels = {level.name: level for level in summarise_levels(read_entries([good, bad, other]))}
    assert list(levels) == list(LEVELS)
    (outcome,) = levels["full"].outcomes
    assert (outcome.tracked, outcome.key) == (True, good.key)
    assert levels["cp"].outcomes == []


def test_the_best_rate_is_that_of_the_best_median():
    scores = {0.1: [1.0, 0.0, 0.0], 0.01: [0.4, 0.5, 0.6]}
    runs = [(options_of(lr=rate, seed=seed), score) for rate in scores for seed, score in enumerate(scores[rate])]
    records = [record_of(options, scores=[{"length": 500, "score": score}]) for options, score in runs]
    assert [entry.score for entry in at_best_rate(read_entries(records))] == scores[0.01]
    untested = [record_of(options, status="done", scores=[]) for options, _ in runs]
    assert at_best_rate(read_entries(untested)) == []


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
    history = [
        {"step": 1, "loss": 0.0, "scores": [0.1, -0.25], "seconds": 0.0, "validation": None},
        {"step": 2, "loss": float("nan"), "scores": [0.1, 0.0], "seconds": 0.0, "validation": None},
    ]
    record = record_of(options_of(), status="done", history=history)
    once = record_of(options_of(seed=1), history=history[:1], probe=[10, 20], status="diverged", scores=[])
    for records in ([record], [once], [record, once], []):
        entries = read_entries(records)
        assert len(learning_sheets(entries)) == min(1, len(entries))
        assert len(length_sheets(entries)) == min(1, sum(bool(entry.scores) for entry in entries))
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
        # distinct by lightness alone
        assert grounds == sorted(grounds, reverse=place == 0)
        for rule in rules:
            low, high = sorted((_luminance(rule[place]), _luminance(rule[place + 2])))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_the_command_writes_the_page(tmp_path):
    fill(tmp_path / "store", names=("figure4",))
    out = tmp_path / "deep" / "report.html"
    written = report(tmp_path / "store", out)
    assert written.to_dict() == {"report": str(out), "runs": 5, "figures": []}
    assert str(written) == f"report  {out}\nruns    5"
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(RunError, match="is not an"):
        report(tmp_path / "store", tmp_path / "report.pdf")
    with pytest.raises(StoreError, match="holds no store"):
        report(tmp_path / "nowhere", out)
    with pytest.raises(UnknownNameError, match='unknown preset "fast"'):
        report(tmp_path / "store", out, preset="fast")


def test_the_command_imports_no_torch_before_it_is_needed():
    import subprocess

    asked = "import sys; import statewise.commands.report; print('torch' in sys.modules, 'jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
