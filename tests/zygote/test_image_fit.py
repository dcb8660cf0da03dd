"""`PASTURE_IMPORTS` and `pasture image fit --apply`: from programs to images that serve them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from zygotes import Zygotes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SECRET = "a-secret-of-the-command-line"
SMALL = "import sqlite3"
LARGE = "import helper\nimport sqlite3, xml.dom.minidom"
FORKS = "import csv, os\nif os.fork() == 0:\n    raise SystemExit\nos.wait()"


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_programs_are_recorded_fitted_and_served(own_zygotes: Zygotes) -> None:
    folder = own_zygotes.folder
    log = folder / "imports.log"
    environ = {**own_zygotes.environ, "PASTURE_IMPORTS": str(log), "A_SECRET": SECRET}
    (folder / "helper.py").write_text("import wave\nimport gone_since\n")
    (folder / "gone_since.py").write_text("")
    for text in (SMALL, SMALL, LARGE, FORKS):
        own_zygotes.run("-c", text, SECRET, env=environ, cwd=folder)
    own_zygotes.run("-X", "dev", "-c", SMALL, env=environ)
    own_zygotes.run("-S", "-c", SMALL, env=environ)
    assert SECRET not in log.read_text()
    found = lines(log)
    assert [line[4] for line in found] == ["sqlite3", "sqlite3", "helper,sqlite3,xml", "csv,os"]
    assert found[2][6].split()[-5:] == ["wave", "sqlite3", "xml", "xml.dom", "xml.dom.minidom"]
    assert {line[5] for line in found} == {"python"}

    words = [sys.executable, "-m", "pasture", "image", "fit", str(log), "--json", "fit.json"]
    done = subprocess.run(
        [*words, "--apply"], cwd=folder, env=own_zygotes.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    images = json.loads((folder / "fit.json").read_text())["images"]
    by_text = {kind["text"]: image for image in images for kind in image["serves"]}
    assert by_text["helper,sqlite3,xml"]["base"] == by_text["sqlite3"]["name"]
    for text in (SMALL, LARGE):
        served = own_zygotes.why("-c", text, cwd=folder)
        names = ",".join(["helper"] * (text == LARGE) + ["sqlite3"] + ["xml"] * (text == LARGE))
        assert served.endswith(f"served by the zygote: {by_text[names]['name']}")

    own_zygotes.run("-c", SMALL, env=environ)
    assert lines(log)[-1][4:] == ["sqlite3", "image", "sqlite3"]
    own_zygotes.run("-c", "import sqlite3, tomllib", env=environ)
    assert lines(log)[-1][4:] == ["sqlite3,tomllib", "image", "sqlite3 tomllib"]
    refused = subprocess.run(
        [*words, "--budget", "0", "--apply"], cwd=folder, env=own_zygotes.environ,
        capture_output=True, text=True,
    )  # fmt: skip
    assert refused.returncode
    assert by_text["sqlite3"]["name"] in own_zygotes.status()
