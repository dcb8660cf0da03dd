"""The built site and both reports in a browser, light and dark: `make docs-check`."""

import functools
import http.server
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from pasture_tools.explain import html as explain
from pasture_tools.trial import html as trial
from tests.unit.explain.explanations import FULL
from tests.unit.trial.conftest import MakeResult, make_result, make_run  # noqa: F401  fixtures

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
WIDTHS = (400, 800, 1400)
MIN_CONTRAST = 4.5  # of text: WCAG 2.2, 1.4.3
SCHEMES = {"light": 1, "dark": 0}  # as Chromium numbers them
REPORTS = ("try.html", "explain.html")
PAGES = (
    *("index.html", "docs/start.html", "docs/reference.html", "docs/results/engines.html"),
    *("docs/gunicorn.html", *REPORTS),
)
# The frames delay the page's load, so all of them are there when it is measured.
MEASURE = """<!doctype html>%s<pre id="found"></pre><script>
const brightness = color => color.match(/[0-9.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 765;
const covered = code => {
  const button = code.parentElement.querySelector("nav, .md-clipboard");
  return button && button.getBoundingClientRect().left < code.getBoundingClientRect().right - 1;
};
const parts = color => color.match(/[0-9.]+/g).map(Number);
const over = (top, under) => {
  const alpha = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map(i => top[i] * alpha + under[i] * (1 - alpha));
};
const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = color => {
  const [r, g, b] = color.map(v => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const SHOWN = {opacityProperty: true, visibilityProperty: true};
const hasText = one => [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()) &&
  one.checkVisibility(SHOWN) && one.getClientRects().length;
const poor = (inside, view, least) =>
  [...inside.querySelectorAll("body, body *")].filter(hasText).map(one => {
    const above = [];
    for (let up = one; up; up = up.parentElement) above.unshift(view.getComputedStyle(up));
    const paper = above.reduce(
      (under, style) => over(parts(style.backgroundColor), under), [255, 255, 255]);
    const [a, b] = [light(over(parts(view.getComputedStyle(one).color), paper)), light(paper)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return [contrast, `${one.tagName}.${one.className}: ${one.innerText.slice(0, 40)}`];
  }).filter(found => found[0] < least);
onload = () => setTimeout(() => document.getElementById("found").textContent = JSON.stringify(
  [...document.querySelectorAll("iframe")].map(frame => {
    const inside = frame.contentDocument, root = inside.documentElement;
    const style = frame.contentWindow.getComputedStyle(inside.body);
    return {page: frame.src, width: frame.clientWidth, scroll: root.scrollWidth,
            text: root.innerText.length, paper: brightness(style.backgroundColor),
            ink: brightness(style.color),
            buttons: inside.querySelectorAll("pre nav, pre button").length,
            poor: poor(inside, frame.contentWindow, %s),
            covered: [...inside.querySelectorAll("pre > code")].filter(covered).length};
  })), 1000);
</script>"""
FRAME = '<iframe src="{}" style="width:{}px;height:800px;border:0"></iframe>'

pytestmark = pytest.mark.skipif(not SITE.exists(), reason="make docs-check builds the site")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def chromium() -> str:
    """The program, from the PATH or out of Debian."""
    words = [str(SITE.parents[1] / "tools" / "services"), "chromium"]
    found = subprocess.run(words, capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(f"Chromium cannot be had: {found.stderr.strip()}")
    return found.stdout.strip()


@pytest.fixture
def address(make_result: MakeResult) -> Iterator[str]:  # noqa: F811
    """Of a server on loopback: the site, both reports, and the page that measures."""
    frames = "".join(FRAME.format(page, width) for page in PAGES for width in WIDTHS)
    made = {
        "measure.html": MEASURE % (frames, MIN_CONTRAST),
        "try.html": trial.render_html(make_result(), datetime(2026, 1, 2)),
        "explain.html": explain.render_html(FULL, datetime(2026, 1, 2)),
    }
    for name, text in made.items():
        (SITE / name).write_text(text)
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    for name in made:
        (SITE / name).unlink()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_the_window_and_can_be_read_in_light_and_dark(
    chromium: str, address: str, tmp_path: Path, scheme: str
) -> None:
    done = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/profile"),
            *("--window-size=1500,900", "--timeout=90000", "--virtual-time-budget=60000"),
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            *("--dump-dom", f"{address}/measure.html"),
        ],
        capture_output=True,
        text=True,
        timeout=150,
    )
    written = re.search(r'id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    found = json.loads(written[1]) if written and written[1] else []

    assert len(found) == len(PAGES) * len(WIDTHS), done.stdout[-2000:] + done.stderr[-2000:]
    assert [one for one in found if one["scroll"] > one["width"]] == []
    assert all(one["text"] > 300 for one in found)
    assert {text: contrast for one in found for contrast, text in one["poor"]} == {}
    assert [one for one in found if (one["paper"] > one["ink"]) != (scheme == "light")] == []
    assert [one for one in found if one["covered"]] == []
    assert any(one["buttons"] for one in found)


def test_no_group_of_the_menu_has_more_than_eight_entries() -> None:
    menu = (SITE.parents[1] / "mkdocs.yml").read_text().partition("\nnav:")[2]
    groups: dict[int, int] = {}  # entries of each open group, by indentation
    for line in menu.splitlines()[1:]:
        depth = len(line) - len(line.lstrip())
        groups = {one: entries for one, entries in groups.items() if one <= depth}
        groups[depth] = groups.get(depth, 0) + 1
        assert groups[depth] <= 8, line


def test_no_link_reads_as_the_name_of_a_page() -> None:
    pages = [one.read_text(encoding="utf-8") for one in (SITE / "docs").rglob("*.html")]
    assert pages
    assert [
        link for page in pages for link in re.findall(r"<a [^>]*>([\w./-]+\.md)</a>", page)
    ] == []


def test_nothing_is_loaded_from_another_host() -> None:
    loading = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"')
    loaded = {
        address
        for page in SITE.rglob("*.html")
        for tag in re.finditer(r"<(?:script|link|img)[^>]+>", page.read_text(encoding="utf-8"))
        for address in loading.findall(tag[0])
        if 'rel="canonical"' not in tag[0]
    }
    assert loaded == set()
