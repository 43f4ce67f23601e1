"""The report and the explorer in a real browser: nothing in the console, every control does something, hard stores.

Uses Playwright with the system's Chromium; the pictures are kept in build/screenshots. Without Chromium the tests are
left out with the line that installs it, unless SERA_REQUIRE_BROWSER=1 (set by .ci/run) makes that a failure.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from sera_data.cli import main

sys.path.insert(0, str(Path(__file__).parent.parent / "sera_data"))
sys.path.insert(0, str(Path(__file__).parent))
import small_store as small
from hard_stores import hard_store

from tests.port import free_port
from tests.sera_data.small_tree import tree_id

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PICTURES = Path("build/screenshots")
INSTALL = "no Chromium on this machine; install it with: apt-get install -y chromium"
TREE = tree_id(small.RUN, 0, small.task_id(0), 0)
PATIENCE = 180_000
"""Milliseconds until a browser step counts as failed: only a hung one takes so long."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if os.environ.get("SERA_REQUIRE_BROWSER") == "1":
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield chromium
        chromium.close()


@contextmanager
def page_of(browser, address, *, width=1440, height=1000, scheme="light"):
    """A page that fails the test on any error of its console, any exception and any failed or foreign request."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page, faults = context.new_page(), []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(f"{request.url}: {request.failure}"))
    page.on("request", lambda request: None if _own(request.url) else faults.append(f"asks for {request.url}"))
    page.goto(address)
    yield page
    page.wait_for_load_state()
    context.close()
    assert faults == []


def _own(url):
    return url.startswith(("http://127.0.0.1:", "http://localhost:", "ws://127.0.0.1:", "file:", "data:", "blob:"))


@contextmanager
def app(name, store, *options):
    """The address of `sera notebook NAME STORE`, which runs as long as the context."""
    port = free_port()
    command = [sys.executable, "-m", "sera_data", "notebook", name, str(store.path), *options]
    command += ["--headless", "--port", str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said = ""
        for line in server.stdout:  # marimo prints its address when it listens
            said += line
            if "URL:" in line:
                break
        else:
            pytest.fail(f"the app ended: {said}")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.stdout.close()
        server.wait()


def picture(page, name, **options):
    page.screenshot(path=PICTURES / f"{name}.png", **options)


def settled(page):
    """The explorer, once its last request was answered."""
    explorer = page.locator(".sera-explorer")
    page.locator('.sera-explorer[aria-busy="false"]').wait_for()
    return explorer


def choose(page, **fields):
    for name, value in fields.items():
        page.locator(f".sera-explorer [name={name}]").select_option(value)
    return settled(page)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return small.small_store(tmp_path_factory.mktemp("small") / "store", tasks=20)


@pytest.fixture(scope="module")
def explorer_address(store, tmp_path_factory):
    row = {
        "turn_id": f"{TREE}#0000", "trajectory_id": TREE, "stage": "execution", "token_start": 0, "token_end": 2,
        "reward": 1.0, "baseline": 0.5, "advantage": 0.5, "depth": 0, "group_id": "0/t",
    }  # fmt: skip
    file = tmp_path_factory.mktemp("credit") / "credit.parquet"
    pl.DataFrame([row]).write_parquet(file)
    with app("trees", store, "--credit", str(file)) as address:
        yield address


def test_every_control_of_the_explorer_does_something(browser, explorer_address):
    with page_of(browser, explorer_address) as page:
        found = settled(page).locator(".list [role=status]")
        entries = page.locator(".sera-explorer .entry")
        assert found.inner_text() == "40 found"
        choose(page, filter="failed")
        assert found.inner_text() == "20 found"
        choose(page, filter="infra")
        assert "No infrastructure error." in page.locator(".sera-explorer .list").inner_text()
        choose(page, filter="all")
        first = entries.first.inner_text()
        page.get_by_role("button", name="Next").click()
        settled(page)
        assert entries.first.inner_text() != first
        page.get_by_role("button", name="Back").click()
        settled(page)
        assert entries.first.inner_text() == first
        choose(page, epoch="0")
        assert found.inner_text() == "40 found"
        page.get_by_label("Task, tree or goal").fill(TREE)
        page.locator(".sera-explorer .list [role=status]", has_text=re.compile("^1 found")).wait_for()
        entries.first.click()
        settled(page)
        assert entries.first.get_attribute("aria-current") == "true"
        detail = page.locator(".sera-explorer .detail")
        assert "advantage +0.500 on tokens 0 to 1" in detail.inner_text()
        assert detail.locator(".trained.up").count() == 1
        detail.locator("summary", has_text="Prompt").first.click()
        assert detail.locator("details[open]").count() == 1
        detail.get_by_role("button", name="t1d0").first.click()
        settled(page)
        assert "16 of 16 pairs ranked right" in detail.inner_text()
        page.get_by_role("button", name="Sample 1, failed").click()
        settled(page)
        assert TREE not in page.locator(".sera-explorer .tree header").inner_text()


def test_a_tree_with_eight_branches_is_shown_right(browser, explorer_address):
    with page_of(browser, explorer_address) as page:
        settled(page)
        page.get_by_label("Task, tree or goal").fill(TREE)
        page.locator(".sera-explorer .list [role=status]", has_text=re.compile("^1 found")).wait_for()
        page.locator(".sera-explorer .entry").first.click()
        settled(page)
        drawing = page.locator(".sera-explorer .drawing")
        branches = drawing.locator(f'[data-open^="node:{TREE}/t1d0b"][aria-level="3"]')
        assert branches.count() == 8
        boxes = [branches.nth(i).locator("> span").bounding_box() for i in range(8)]
        root = drawing.locator(f'[data-open="node:{TREE}"] > span').bounding_box()
        assert all(box["x"] > root["x"] + root["width"] for box in boxes)
        assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes))
        heads = page.locator(".sera-explorer .detail thead button")
        assert [heads.nth(i).inner_text() for i in range(8)] == [f"b{i}" for i in range(8)]
        picture(page, "explorer-eight-branches", full_page=True)
        heads.nth(3).click()
        settled(page)
        assert "Branch 3 (not taken)" in page.locator(".sera-explorer .detail").inner_text()
        assert branches.nth(3).get_attribute("aria-selected") == "true"
        picture(page, "explorer-node", full_page=True)


def test_the_tree_is_walked_by_keyboard_alone(browser, explorer_address):
    with page_of(browser, explorer_address) as page:
        settled(page)
        page.locator(".sera-explorer .entry").first.focus()
        page.keyboard.press("Enter")
        settled(page)
        focused = "document.activeElement.shadowRoot?.activeElement ?? document.activeElement"
        label = f"() => {{ const e = {focused}; return e.getAttribute('aria-label') ?? e.innerText; }}"
        page.locator('.sera-explorer [role=treeitem][tabindex="0"]').focus()
        assert page.locator('.sera-explorer [role=treeitem][tabindex="0"]').count() == 1
        page.keyboard.press("Home")
        assert page.evaluate(label).startswith("Root, ")
        page.keyboard.press("ArrowRight")
        assert page.evaluate(label).startswith("Delegation t1d0, 8 of 8 branches")
        page.keyboard.press("ArrowDown")
        assert page.evaluate(label).startswith("Branch 0")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(label).startswith("Delegation t1d0")
        page.keyboard.press("End")
        assert page.evaluate(label).startswith("Branch 7")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        settled(page)
        assert "Branch 6" in page.locator(".sera-explorer .detail h3").inner_text()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", "This store has no trees yet."),
        ("one node", "No turn was taken."),
        ("only failures", "No pair of a success and a failure"),
        ("not a number", "NaN"),
    ],
)
def test_hard_stores_in_explorer_and_report(browser, tmp_path, kind, words):
    store = hard_store(tmp_path / "store", kind)
    name = kind.replace(" ", "-")
    with app("trees", store) as address, page_of(browser, address, width=1280) as page:
        settled(page)
        if kind != "empty":
            page.locator(".sera-explorer .entry").first.click()
            settled(page)
        if kind == "only failures":
            page.locator('.sera-explorer [data-open$="/t1d0"][role=treeitem] > span').first.click()
            settled(page)
        assert words in page.locator(".sera-explorer").inner_text()
        picture(page, f"explorer-{name}", full_page=True)
    report(browser, store, tmp_path, name=f"report-{name}")


def report(browser, store, place, *, name, **look):
    """Write and load the audit's page; returns its text."""
    file = place / f"{name}.html"
    assert main(["audit", str(store.path), "--html", str(file)]) in (0, 3)  # 3: a gate names the fault of a bent store
    with page_of(browser, file.resolve().as_uri(), width=1280, **look) as page:
        assert page.locator("h1").inner_text()
        for summary in page.locator("summary").all():
            before = summary.evaluate("e => e.parentElement.open")
            summary.click()
            assert summary.evaluate("e => e.parentElement.open") is not before
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        picture(page, name, full_page=True)
        return page.locator("body").inner_text()


def test_the_report_loads_light_dark_and_on_a_phone(browser, store, tmp_path):
    text = report(browser, store, tmp_path, name="report")
    assert not re.search(r"\b(nan|None|undefined)\b", text)
    file = (tmp_path / "report.html").resolve().as_uri()
    with page_of(browser, file, scheme="dark") as page:
        picture(page, "report-dark", full_page=True)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    with page_of(browser, file, width=390, height=844) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        picture(page, "report-phone", full_page=True)
    with page_of(browser, file, width=718, height=1000) as page:  # an A4 sheet without its margins
        page.emulate_media(media="print")
        wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        assert page.evaluate(wide) == 0  # on paper nobody scrolls sideways
        picture(page, "report-print", full_page=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("calibration", "Do rubric scores mean anything?"),
        ("learning", "What was learned?"),
        ("cost", "What did it cost?"),
    ],
)
def test_the_other_notebooks_run_as_apps(browser, store, name, words):
    with app(name, store) as address, page_of(browser, address) as page:
        page.get_by_role("heading", name=words).wait_for()
        page.locator("marimo-table table").first.wait_for()
        from playwright.sync_api import expect

        expect(page.get_by_text("Loading chart")).to_have_count(0, timeout=PATIENCE)
        picture(page, f"notebook-{name}", full_page=True)
        assert page.locator(".marimo-error, [data-testid=cell-error]").count() == 0
