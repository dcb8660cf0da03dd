"""The built site in a browser, as wide as a telephone and as a desk's screen: `make docs-check`."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (360, 390, 1280)
SCHEMES = {"light": 1, "dark": 0}  # as Chromium numbers them
REPORT = "report.html"
STYLE = SITE.parents[1] / "src" / "pasture" / "display" / "page.css"
PAGES = (
    *("index.html", "docs/start.html", "docs/reference.html", "docs/results/engines.html"),
    *("docs/gunicorn.html", REPORT),
)
# The frames delay the page's load, so all of them are there when it is measured.
MEASURE = """<!doctype html>%s<pre id="found"></pre><script>
const brightness = color => color.match(/[0-9.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0) / 765;
const covered = code => {
  const button = code.parentElement.querySelector("nav, .md-clipboard");
  return button && button.getBoundingClientRect().left < code.getBoundingClientRect().right - 1;
};
onload = () => setTimeout(() => document.getElementById("found").textContent = JSON.stringify(
  [...document.querySelectorAll("iframe")].map(frame => {
    const inside = frame.contentDocument, root = inside.documentElement;
    const style = frame.contentWindow.getComputedStyle(inside.body);
    return {page: frame.src, width: frame.clientWidth, scroll: root.scrollWidth,
            text: root.innerText.length, paper: brightness(style.backgroundColor),
            ink: brightness(style.color),
            buttons: inside.querySelectorAll("pre nav, pre button").length,
            covered: [...inside.querySelectorAll("pre > code")].filter(covered).length};
  })), 1000);
</script>"""
FRAME = '<iframe src="{}" style="width:{}px;height:800px;border:0"></iframe>'

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or not SITE.exists(),
    reason="make docs-check builds the site, and needs Chromium",
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Of a server of the site on loopback, which also has the page that measures."""
    (SITE / "measure.html").write_text(
        MEASURE % "".join(FRAME.format(page, width) for page in PAGES for width in WIDTHS)
    )
    (SITE / REPORT).write_text(
        f"<style>{STYLE.read_text()}</style><body><main>{'A report. ' * 99}</main></body>"
    )
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    (SITE / "measure.html").unlink()
    (SITE / REPORT).unlink()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_the_window_in_light_and_dark(address: str, tmp_path: Path, scheme: str) -> None:
    done = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/profile"),
            *("--window-size=1400,900", "--timeout=90000", "--virtual-time-budget=60000"),
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
    assert all(one["text"] > 500 for one in found)
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
