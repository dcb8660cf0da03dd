"""What httperf prints, read back."""

import pytest

from pasture.errors import ServerFailed
from pasture_lab.processes.httperf import answered

HTTPERF = """\
httperf --hog --client=0/1 --server=127.0.0.1 --port=8000 --uri=/ --send-buffer=4096
Maximum connect burst length: 1

Total: connections 50 requests 50 replies 48 test-duration 1.037 s

Connection rate: 48.2 conn/s (20.7 ms/conn, <=1 concurrent connections)
Reply status: 1xx=0 2xx=47 3xx=0 4xx=0 5xx=1

Errors: total 2 client-timo 2 socket-timo 0 connrefused 0 connreset 0
"""


def test_httperf_counts_answers_with_2xx_alone() -> None:
    assert answered(HTTPERF) == 47


def test_httperf_without_a_report_is_an_error_that_shows_what_it_said() -> None:
    with pytest.raises(ServerFailed) as caught:
        answered("httperf: connect: no route to host")
    assert "no route to host" in caught.value.hint
