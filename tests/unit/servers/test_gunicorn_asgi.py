"""What the parent of gunicorn's ASGI workers imports in their place."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
from gunicorn.workers.sync import SyncWorker
from uvicorn.workers import UvicornH11Worker, UvicornWorker
from pasture.servers.gunicorn import asgi
asgi.import_server(SyncWorker)
print(*sorted(name for name in sys.modules if name.startswith(("uvicorn.protocols", "uvloop"))))
asgi.import_server({"h11": UvicornH11Worker, "auto": UvicornWorker}[sys.argv[1]])
print(*sorted(name for name in sys.modules if name.startswith(("uvicorn.", "uvloop"))))
"""


@pytest.mark.once
@pytest.mark.parametrize(("kind", "has_uvloop"), [("auto", True), ("h11", False)])
def test_what_a_worker_of_uvicorn_imports_at_its_start_its_parent_has_imported(
    kind: str, has_uvloop: bool
) -> None:
    command = [sys.executable, "-c", PROGRAM, kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    before, after = (line.split() for line in done.stdout.split("\n")[:2])
    assert before == []
    assert {"uvicorn.protocols.websockets.auto", "uvicorn.lifespan.on"} <= set(after)
    assert ("uvloop" in after) is has_uvloop
    assert ("uvicorn.protocols.http.auto" in after) is has_uvloop


@pytest.mark.once
def test_a_server_that_cannot_be_loaded_is_for_the_worker_to_complain_of() -> None:
    break_it = "UvicornWorker.CONFIG_KWARGS = {'http': 'no.such:Protocol'}"
    program = PROGRAM.replace("asgi.import_server({", f"{break_it}\nasgi.import_server({{")
    done = subprocess.run([sys.executable, "-c", program, "auto"], capture_output=True)
    assert done.returncode == 0
