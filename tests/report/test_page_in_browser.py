"""The page as a reader meets it: in a real browser, wide and narrow, light and dark."""

import pytest

from statewise.report.page import write_page
from statewise.store import Store
from tests import needs
from tests.report.synthetic import fill
from tests.report.test_page import HOSTILE, hostile_records

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ROWS = "#list tr.run"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The page of a store with part of every grid, and with names that nobody should give."""
    folder = tmp_path_factory.mktemp("page")
    fill(folder / "store", names=("table-addition", "figure2", "figure3", "figure4"), further=hostile_records(900))
    with Store.open(folder / "store") as store:
        write_page(store, folder / "report.html", "quick")
    return folder / "report.html"


@pytest.fixture
def opened(file, tmp_path):
    """Opens the page; at the end nothing must have gone wrong, and nothing been fetched."""
    chromium = needs.program("chromium", "chromium")
    from playwright.sync_api import sync_playwright

    wrong, asked = [], []
    with sync_playwright() as playwright:

        def start(width=1400, scheme="light", **given):
            context = playwright.chromium.launch_persistent_context(
                tmp_path / f"profile-{width}-{scheme}",
                executable_path=chromium,
                args=list(FLAGS),
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
                **given,
            )
            page = context.new_page()
            page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(file.as_uri())
            return page

        yield start
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1400])
def test_nothing_stands_out_of_the_page(opened, width, scheme):
    page = opened(width, scheme)
    assert page.evaluate(OVERFLOW) <= 0
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    page.locator(f"{ROWS} th button").first.click()
    assert page.evaluate(OVERFLOW) <= 0
    box = page.locator(".details").first.bounding_box()
    assert box["width"] <= width


def test_hostile_text_is_text(opened):
    page = opened(380)
    assert page.evaluate("window.hacked") is None
    for name in HOSTILE:
        page.fill("input[name=text]", name.split()[0])
        assert page.locator(ROWS).count() == 2
        assert page.locator(f"{ROWS} th button").first.inner_text() == name
        page.locator(f"{ROWS} th button").last.click()
        assert page.locator(".details .reason").inner_text() == name
        page.locator(f"{ROWS} th button").last.click()
        assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate("window.hacked") is None


def test_runs_are_filtered(opened):
    page = opened()
    assert page.locator(ROWS).count() == 100
    page.select_option("select[name=model]", "rotation")
    page.select_option("select[name=recipe]", "statewise")
    page.fill("input[name=text]", "modular_addition(25) seed=31")
    rows = page.locator(ROWS)
    assert rows.count() == 1
    assert "modular_addition(25)" in rows.inner_text()
    page.select_option("select[name=status]", "failed")
    assert rows.count() == 0
    page.click("button[type=reset]")
    page.wait_for_function(f"document.querySelectorAll('{ROWS}').length === 100")


@pytest.mark.parametrize(
    ("text", "column", "shown"),
    [
        ("rate=0.01", "rate", "0.01"),
        ("lr=1e-2", "rate", "0.01"),
        ("H=128", "H", "128"),
        ("hidden=128", "H", "128"),
        ("seed=1", "seed", "1"),
        ("status=diverged", "status", "diverged"),
    ],
)
def test_runs_are_found_by_the_names_of_columns_and_options(opened, text, column, shown):
    page = opened()
    names = page.locator("#list thead th").all_inner_texts()
    page.fill("input[name=text]", text)
    cells = page.locator(f"{ROWS} > :nth-child({names.index(column) + 1})")
    assert cells.count() > 0
    assert set(cells.all_inner_texts()) == {shown}
    assert " of " in page.inner_text("#shown")
    # an option without a column, and a name that nothing has
    page.fill("input[name=text]", f"{text} additive=none length_power=")
    assert cells.count() > 0
    page.fill("input[name=text]", f"{text} nothing=1")
    assert cells.count() == 0


def test_a_click_anywhere_in_a_row_opens_the_run(opened):
    page = opened()
    cell = page.locator(f"{ROWS} td").nth(5)
    cell.hover()
    ground = "row => getComputedStyle(row.cells[3]).backgroundColor"
    assert page.locator(ROWS).first.evaluate(ground) != page.locator(ROWS).nth(1).evaluate(ground)
    cell.click()
    assert page.locator(".details").count() == 1
    cell.click()
    assert page.locator(".details").count() == 0
    page.locator(f"{ROWS} th button").first.click()
    assert page.locator(".details").count() == 1


def test_an_address_keeps_what_is_chosen_and_its_order(opened):
    page = opened()
    page.fill("input[name=text]", "modular_addition(5) seed=1")
    page.select_option("select[name=model]", "full")
    page.click("th[data-name=far] button")
    shown, address = page.locator(ROWS).all_inner_texts(), page.url
    assert 0 < len(shown) < 100
    page.goto("about:blank")
    page.goto(address)
    assert page.locator(ROWS).all_inner_texts() == shown
    assert page.input_value("input[name=text]") == "modular_addition(5) seed=1"
    assert page.get_attribute("th[data-name=far]", "aria-sort") == "descending"
    # what an address asks for is text, and what it names wrongly is left
    page.goto("about:blank")
    page.goto(address.split("#")[0] + "#runs?text=<img%20src=x%20onerror=window.hacked=1>&model=none&rising=__proto__")
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hacked") is None
    page.click("button[type=reset]")
    page.wait_for_function(f"document.querySelectorAll('{ROWS}').length === 100")
    assert page.evaluate("location.hash") == "#runs"


def test_scores_have_two_digits_and_are_whole_in_their_tooltips(opened):
    page = opened()
    # runs of ours are tested at 10,000 too
    page.select_option("select[name=recipe]", "statewise")
    page.fill("input[name=text]", "modular_addition(50) status=done")
    page.click("th[data-name=far] button")
    page.click("th[data-name=far] button")
    cells = page.locator(f"{ROWS} td:nth-child(4)")
    texts = cells.all_inner_texts()
    titles = [cell.get_attribute("title") for cell in cells.all()]
    assert all(len(text.lstrip("−")) == 4 for text in texts)
    assert "−0.00" not in texts
    assert any(len(title) > 6 for title in titles)
    assert all(
        abs(float(t) - float(w.replace("−", "-"))) < 0.006 for t, w in zip(texts, titles, strict=True) if t[0] != "−"
    )
    assert "10,000" in page.locator(f"{ROWS} td:nth-child(6)").first.get_attribute("title")


@pytest.mark.parametrize("width", [380, 1400])
def test_the_results_are_the_first_table_with_a_constant_answer_in_every_cell(opened, width):
    page = opened(width)
    assert page.locator("main h2").first.inner_text() == "Results"
    cells = page.locator("#results tbody tr td.cell")
    assert cells.count() > 20
    texts = cells.all_inner_texts()
    assert all("const. " in text for text in texts)
    # a number and its constant stay inside of their cell, and a mark does not lie on the number
    inside = "cells => cells.every(cell => cell.scrollWidth <= cell.clientWidth + 1)"
    assert cells.evaluate_all(inside)
    marked = page.locator("#results td.cell:has(.sign)").first
    sign, number = marked.locator(".sign").bounding_box(), marked.locator(".ours").bounding_box()
    assert sign["y"] < number["y"] + number["height"]
    names = page.locator("#results tbody tr:not(.group) th")
    assert names.evaluate_all("cells => cells.every(cell => cell.scrollWidth <= cell.clientWidth + 1)")
    cells.nth(1).scroll_into_view_if_needed()
    cells.nth(1).hover()
    page.locator("#tip").wait_for(state="visible")
    assert "constant" in page.locator("#tip").inner_text()


def test_on_a_phone_all_parts_names_and_seeds_are_within_reach(opened):
    page = opened(380, has_touch=True)
    for link in page.locator("nav a").all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 380 - 16
    assert page.locator("nav").evaluate("nav => nav.scrollWidth - nav.clientWidth") <= 0
    # the picture of the levels does not lie on what is below it, however far one scrolls
    page.locator(".rungs").scroll_into_view_if_needed()
    picture, rungs = page.locator(".nest").bounding_box(), page.locator(".rungs").bounding_box()
    assert picture["y"] + picture["height"] <= rungs["y"]
    page.fill("input[name=text]", "task=modular_addition")
    for button in page.locator(f"{ROWS} th button").all()[:5]:
        assert button.evaluate("b => b.scrollHeight <= b.clientHeight && b.scrollWidth <= b.clientWidth")
    cell = page.locator("#tables td.cell").nth(2)
    cell.scroll_into_view_if_needed()
    cell.locator(".sign").tap()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    assert tip.locator(".rates a").count() == 9
    # it stays until something else is touched
    page.wait_for_timeout(400)
    assert tip.is_visible()
    page.locator("h2").first.tap()
    tip.wait_for(state="hidden")
    page.locator("#tables .heat details summary").first.tap()
    assert page.locator("#tables .heat .more .rates").first.is_visible()


def test_runs_are_sorted_and_paged(opened):
    page = opened()
    page.click("th[data-name=far] button")
    assert page.get_attribute("th[data-name=far]", "aria-sort") == "descending"
    first = page.locator(f"{ROWS} td:nth-child(4)")
    assert first.first.inner_text() == "1.00"
    page.click("th[data-name=far] button")
    shown = [float(text.replace("−", "-")) for text in first.all_inner_texts()]
    assert shown == sorted(shown)
    assert shown[0] < 0.1
    page.click("#after")
    assert "page 2" in page.inner_text("#pages")
    later = [float(text.replace("−", "-")) for text in first.all_inner_texts()]
    assert later[0] >= shown[-1]
    # runs without a score stand last either way
    while page.is_enabled("#after"):
        page.click("#after")
    assert first.last.inner_text() == "–"


def test_a_number_leads_to_its_run(opened):
    page = opened()
    link = page.locator("#tables td.cell a.ours").nth(40)
    key = link.get_attribute("href").removeprefix("#run-")
    # the run is found although a filter hides it
    page.fill("input[name=text]", "nothing like it")
    assert page.locator(ROWS).count() == 0
    link.click()
    row = page.locator(f"[id='run-{key}']")
    assert row.locator("button").get_attribute("aria-expanded") == "true"
    details = page.locator("tr.opened .details")
    assert key in details.inner_text()
    assert "length_power" in details.inner_text()
    box = row.bounding_box()
    assert 0 <= box["y"] < 900
    assert page.evaluate("location.hash") == f"#run-{key}"


def test_an_address_with_a_run_opens_it(opened, file):
    page = opened()
    key = page.locator("#tables td.cell a.ours").last.get_attribute("href")
    page.goto("about:blank")
    page.goto(file.as_uri() + key)
    assert page.locator(f"[id='{key[1:]}'] button").get_attribute("aria-expanded") == "true"


def test_a_cell_shows_all_its_seeds(opened):
    page = opened()
    cell = page.locator("#tables td.cell").first
    cell.hover()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    assert tip.locator(".rates a").count() == 9
    assert "H 64" in tip.inner_text()
    tip.locator(".rates a").last.click()
    page.locator("tr.opened .details").wait_for()
    tip.wait_for(state="hidden")
    page.locator("#tables td.cell a.ours").nth(3).focus()
    tip.wait_for(state="visible")
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_changes_light_and_dark(opened, scheme):
    page = opened(scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('.chart text')).fill"
    before, ink = page.evaluate(ground), page.evaluate(text)
    page.click("#theme")
    after = page.evaluate(ground)
    assert before != after
    assert page.evaluate(text) != ink
    page.reload()
    assert page.evaluate(ground) == after
    page.click("#theme")
    assert page.evaluate(ground) == before


def test_what_a_level_tracks_is_written_inside_of_its_box(opened):
    page = opened()
    ends = "parts => parts.map(part => part.getBBox().x + part.getBBox().width)"
    texts = page.locator(".nest text:not(.name, .count)").evaluate_all(ends)
    boxes = page.locator(".nest rect").evaluate_all(ends)
    assert len(texts) == len(boxes)
    assert all(text < box for text, box in zip(texts, boxes, strict=True))


def test_without_scripts_the_tables_stand_and_the_list_says_why_not(file, tmp_path):
    chromium = needs.program("chromium", "chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=chromium, args=list(FLAGS), java_script_enabled=False
        )
        page = context.new_page()
        page.goto(file.as_uri())
        assert page.locator("noscript").inner_text().startswith("The list of runs is written by a script")
        assert page.locator("#tables td.cell").first.is_visible()
