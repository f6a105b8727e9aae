"""The page as a reader meets it: in a real browser, wide and narrow, light and dark."""

import shutil

import pytest

from statewise.config import resolve
from statewise.report.page import write_page
from statewise.store import Store, key_of
from tests.report.synthetic import fill, record_of
from tests.report.test_page import HOSTILE

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


def browser():
    """Gives the path of Chromium; pip cannot install it, so elsewhere than where it is these tests are left out."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("the browser is absent; install the package chromium to test the page in it")
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The page of a store with part of every grid, and with names that nobody should give."""
    folder = tmp_path_factory.mktemp("page")
    plain = resolve(None, {"task": "modular_addition(5)", "model": "full"}).model_dump(mode="json")
    hostile = []
    for number, name in enumerate(HOSTILE):
        config = plain | {"task": name, "model": name, "recipe": name, "seed": 900 + number}
        hostile.append(record_of(plain) | {"config": config, "key": key_of(config), "commit": name})
        hostile.append({"key": key_of({"n": number}), "status": "failed", "config": config, "reason": name})
    fill(folder / "store", names=("table-addition", "figure2", "figure3", "figure4"), further=hostile)
    with Store.open(folder / "store") as store:
        write_page(store, folder / "report.html", "quick")
    return folder / "report.html"


@pytest.fixture
def opened(file, tmp_path):
    """Opens the page; at the end nothing must have gone wrong, and nothing been fetched."""
    chromium = browser()
    from playwright.sync_api import sync_playwright

    wrong, asked = [], []
    with sync_playwright() as playwright:

        def start(width=1400, scheme="light"):
            context = playwright.chromium.launch_persistent_context(
                tmp_path / f"profile-{width}-{scheme}",
                executable_path=chromium,
                args=list(FLAGS),
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
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
    page.fill("input[name=text]", "modular_addition(25) seed=1")
    rows = page.locator(ROWS)
    assert rows.count() == 1
    assert "modular_addition(25)" in rows.inner_text()
    page.select_option("select[name=status]", "failed")
    assert rows.count() == 0
    page.click("button[type=reset]")
    page.wait_for_function(f"document.querySelectorAll('{ROWS}').length === 100")


def test_runs_are_sorted_and_paged(opened):
    page = opened()
    page.click("th[data-name=far] button")
    assert page.get_attribute("th[data-name=far]", "aria-sort") == "descending"
    first = page.locator(f"{ROWS} td:nth-child(4)")
    assert first.first.inner_text() == "1.000"
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
    link = page.locator("td.cell a.ours").nth(40)
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
    key = page.locator("td.cell a.ours").last.get_attribute("href")
    page.goto("about:blank")
    page.goto(file.as_uri() + key)
    assert page.locator(f"[id='{key[1:]}'] button").get_attribute("aria-expanded") == "true"


def test_a_cell_shows_all_its_seeds(opened):
    page = opened()
    cell = page.locator("td.cell").first
    cell.hover()
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    assert tip.locator(".rates a").count() == 9
    assert "H 64" in tip.inner_text()
    tip.locator(".rates a").last.click()
    page.locator("tr.opened .details").wait_for()
    tip.wait_for(state="hidden")
    page.locator("td.cell a.ours").nth(3).focus()
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


def test_without_scripts_the_tables_stand_and_the_list_says_why_not(file, tmp_path):
    chromium = browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=chromium, args=list(FLAGS), java_script_enabled=False
        )
        page = context.new_page()
        page.goto(file.as_uri())
        assert page.locator("noscript").inner_text().startswith("The list of runs is written by a script")
        assert page.locator("td.cell").first.is_visible()
