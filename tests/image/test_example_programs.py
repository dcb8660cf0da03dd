"""examples/programs on the bundled site: built, started by honcho, released again, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from images import make_environment
from running import completed, free_port, listens

from matrix.redis_server import redis_server
from pasture_tools.launch.session import Group

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE, DEMO = REPOSITORY / "examples" / "programs", REPOSITORY / "demo"
TIMEOUT_S = 180.0

pytestmark = pytest.mark.once


def test_units_of_systemd_are_units(tmp_path: Path) -> None:
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze")
    for unit in (EXAMPLE / "systemd").iterdir():
        # Its programs are nowhere here: any one does.
        lines = (
            "ExecStart=/bin/true" if line.startswith("ExecStart=") else line
            for line in unit.read_text().splitlines()
        )
        (tmp_path / unit.name).write_text("\n".join(lines) + "\n")
    units = sorted(tmp_path.iterdir())
    done = completed([verify, "verify", *units])
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "mysite" in line]
    assert len(units) == 7 and not said, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """The example with the bundled site for a project, an environment and a broker."""
    folder = tmp_path / "site"
    shutil.copytree(EXAMPLE, folder)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        file.write_text(file.read_text().replace("mysite", "meadow"))
    shutil.copy(DEMO / "manage.py", folder)
    make_environment(folder / "venv", DEMO)
    script = folder / "venv" / "bin" / "pasture"
    script.write_text(
        f"#!{folder}/venv/bin/python\nfrom pasture_tools.__main__ import main\nmain()\n"
    )
    script.chmod(0o755)
    with redis_server(tmp_path) as address:
        with (folder / ".env").open("a") as file:
            file.write(f"MEADOW_BROKER={address}\nMEADOW_DB={tmp_path}/db\n")
        yield folder


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "PASTURE_LONG" not in os.environ, reason="takes a minute: PASTURE_LONG=1 runs it"
)
def test_programs_of_a_site_are_one_group_and_outlive_a_release(site: Path, tmp_path: Path) -> None:
    port, packages = free_port(), tmp_path / "honcho"
    environ = {"PATH": f"{site}/venv/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environ |= {"LANG": "C.UTF-8", "PORT": str(port)}

    def run(*words: object) -> str:
        done = completed(words, env=environ, cwd=site)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def page() -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": "localhost"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status

    uv = (REPOSITORY / "tools" / "uv", "pip", "install", "--python", sys.executable)
    subprocess.run([*uv, "--quiet", "--target", packages, "honcho"], check=True)
    # Programs that it starts find no trace of where it lies.
    source = f"import sys; sys.path.insert(0, {str(packages)!r}); from honcho.command import main"
    honcho = [sys.executable, "-c", f"{source}; main()", "start"]
    run("env", f"MEADOW_DB={tmp_path}/db", site / "venv/bin/python", "manage.py", "fill")
    run("./build.sh")
    with Group(honcho, log=tmp_path / "honcho.log", env=environ, cwd=site) as group:
        group.wait_for(lambda: listens(port), "the site does not listen", timeout_s=TIMEOUT_S)
        group.wait_for(
            lambda: group.log.count("policy seal") == 2, "not sealed", timeout_s=TIMEOUT_S
        )
        assert page() == 200
        top = ("pasture", "top", "--image", "venv/bin/pasture-python.img", "--once")
        shown = run(*top)
        assert "4 programs out of one image, 8 workers" in shown, shown
        run("./build.sh")  # the new file is in place, and the old programs serve
        assert page() == 200
        assert "no program runs out of" in completed(top, env=environ, cwd=site).stderr
        # A command has the variables of .env, as the others have them by honcho.
        line = "PASTURE_IMAGE_VERBOSE=1 exec pasture-python manage.py takings 2>&1"
        takings = run("sh", "-c", f"set -a; . ./.env; {line}")
        assert takings.count(":") > 3 and "started from the image" in takings, takings
        group.send_signal(signal.SIGTERM)
        group.wait(TIMEOUT_S)
        assert "Traceback" not in group.log, group.log
