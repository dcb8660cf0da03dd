"""examples/containers/image.Dockerfile: its steps in a root of the test's own, without a daemon.

The first stage installs packages from an index; here its environment gets those of the one that
runs the tests. All steps of the second stage are run as they stand, over an overlay of this
machine, and the command then in another root, of which that one is a layer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from images import BIN, STUB
from running import free_port
from test_image_containers import require_containers

from pasture.proc import tree

pytestmark = [pytest.mark.once, pytest.mark.integration]

DOCKERFILE = Path(__file__).parents[2] / "examples" / "containers" / "image.Dockerfile"
TIMEOUT_S = 300
SITE = """\
import sys
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"out of an image" if "pasture_image" in sys.modules else b"by python"]
"""
ROOTS = """\
mount -t tmpfs none "$0"; cd "$0"; mkdir upper work root upper2 work2 run
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t proc proc root/proc; mount --bind /dev root/dev
chroot root sh -ec "$1"
umount root/proc root/dev root
mount -t overlay overlay -o lowerdir=upper:/,upperdir=upper2,workdir=work2 run
mount -t proc proc run/proc; mount --bind /dev run/dev; mount -t tmpfs none run/tmp
chmod 1777 run/tmp; mount -o remount,ro run
exec chroot run sh -ec "$2"
"""


def last_stage() -> list[tuple[str, str]]:
    """Its instructions, with what follows them."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = text.rpartition("\nFROM ")[2].splitlines()[1:]
    parts = (line.strip().partition(" ") for line in lines)
    return [(word, rest.strip()) for word, _, rest in parts if word]


def first_stage() -> str:
    """In the place of pip: our packages, the script of pasture, the stub."""
    ours = [path for path in sys.path if path.endswith("site-packages")]
    packages = "".join(f"import site; site.addsitedir({path!r})\n" for path in ours)
    pasture = "#!/app/venv/bin/python\nfrom pasture_tools.cli.main import main\nmain()\n"
    closed = {*BIN.resolve().parents, *Path(sys.executable).resolve().parents}  # as root's home
    return f"""\
mkdir -p /app/src/mysite; cd /app; chmod a+rx {shlex.join(map(str, closed))}
{BIN}/python -m venv --without-pip /app/venv
echo {shlex.quote(packages)} > $(echo /app/venv/lib/python*/site-packages)/all.pth
cp {STUB} venv/bin/
echo {shlex.quote(pasture)} > venv/bin/pasture; chmod 755 venv/bin/*
echo {shlex.quote(SITE)} > src/mysite/wsgi.py; : > src/mysite/__init__.py
"""


def steps(port: int) -> tuple[str, str]:
    """What builds the second stage, and what runs it."""
    build, environ, user = "", "", ""
    for word, rest in last_stage():
        if word in ("ENV", "WORKDIR"):
            said = f"{'export' if word == 'ENV' else 'cd'} {rest}\n"
            environ += said
            build += said
        elif word == "RUN":
            build += f"sh -ec {shlex.quote(rest)}\n"
        elif word == "USER":
            user = rest
        elif word == "CMD":
            command = [
                part.replace("0.0.0.0:8000", f"127.0.0.1:{port}") for part in json.loads(rest)
            ]
    words = f"exec setpriv --reuid {user} --clear-groups {shlex.join(command)}"
    run = f"{environ}export PASTURE_IMAGE_VERBOSE=1\n{words}"
    return first_stage() + build, run


def test_the_steps_of_the_dockerfile_make_a_container_that_starts_out_of_its_image(
    tmp_path: Path,
) -> None:
    require_containers(tmp_path)
    if BIN.is_relative_to("/tmp"):
        pytest.skip("this checkout is in /tmp, which the container has of its own")
    port = free_port()
    unshare = ("unshare", "-m", "-p", "-i", "-u", "--fork", "--kill-child", "sh", "-ec", ROOTS)
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [*unshare, str(tmp_path), *steps(port)], env=environ, stdout=log, stderr=log
        )
    try:
        assert answer(port, server) == b"out of an image", (tmp_path / "log").read_text()
    finally:
        # One that has become another user is not ended with its parent: prctl(2).
        for pid in tree.descendants(server.pid):
            with contextlib.suppress(ProcessLookupError):  # it ended with an earlier one
                os.kill(pid, signal.SIGKILL)
        server.kill()
        server.wait()
    said = (tmp_path / "log").read_text()
    assert "started from the image: /app/venv/bin/pasture-python.img" in said
    assert ": sealed, " in said


def answer(port: int, server: subprocess.Popen[bytes]) -> bytes:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as found:
                return bytes(found.read())
        except OSError:
            time.sleep(0.1)
    return b""
