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
WIDTHS = (360, 1280)
PAGES = ("index.html", "docs/reference.html", "docs/results/engines.html", "docs/gunicorn.html")
# The frames delay the page's load, so all of them are there when it is measured.
MEASURE = """<!doctype html>%s<pre id="found"></pre><script>
onload = () => document.getElementById("found").textContent = JSON.stringify(
  [...document.querySelectorAll("iframe")].map(frame => {
    const root = frame.contentDocument.documentElement;
    return {page: frame.src, width: frame.clientWidth, scroll: root.scrollWidth,
            text: root.innerText.length};
  }));
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
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    (SITE / "measure.html").unlink()


def test_no_page_is_wider_than_the_window(address: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/profile"),
            *("--window-size=1400,900", "--timeout=90000"),
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
