"""gunicorn's workers of gevent under `pasture run`: the patches come before the application."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("gevent")

PYWSGI = "worker_class = 'gunicorn.workers.ggevent.GeventPyWSGIWorker'"
WAYS = {
    "an option, and a warm-up": {"args": ("-k", "gevent"), "options": ("--warm", "/")},
    "a configuration file": {"conf": PYWSGI},
    "a variable, and reforks": {
        "env": {"GUNICORN_CMD_ARGS": "-k gevent"},
        "options": ("--refork", "100000"),
    },
    "patches in the configuration file": {
        "args": ("-k", "gevent"),
        "conf": "from gevent import monkey\nmonkey.patch_all()",
    },
}


EVERYWHERE = "an option, and a warm-up"


@pytest.fixture(
    params=[
        EVERYWHERE,
        *(pytest.param(way, marks=pytest.mark.once) for way in WAYS if way != EVERYWHERE),
    ]
)
def server(request, serve):
    way = dict(WAYS[request.param])
    return serve(*way.pop("args", ()), app="gevent_app:app", workers=1, **way)


def test_requests_run_beside_each_other_and_each_has_its_own_locals(server):
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(server.get, ["/meet"] * 4))
    assert all(answer["patched"] for answer in answers)
    assert all(answer["together"] > 1 for answer in answers)
    assert all(answer["ticks"] for answer in answers)  # a greenlet of the import goes on
    assert [answer["requests"] for answer in answers] == [1] * 4
    assert ": sealed" in server.log
    assert "does not survive a fork" not in server.log
    os.kill(answers[0]["pid"], signal.SIGKILL)  # its master notices, and forks another
    server.wait_until_it_logs("Booting worker", times=2)
    assert server.get("/")["pid"] != answers[0]["pid"]
    assert server.stop() == 0
    assert "Traceback" not in server.log
