"""What works and what is said where /proc is not mounted, or hides processes."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from running import completed

PROGRAMS = Path(__file__).parent.parent / "programs"
NO_PROC = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
HIDDEN = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -t proc -o hidepid=2 none /proc && exec "$@"',
    "sh",
)

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None, reason="takes /proc away"
    ),
]


def run(where, *arguments):
    command = [*where, sys.executable, *map(str, arguments)]
    done = completed(command, cwd=PROGRAMS)
    if done.returncode == 32 or "unshare" in done.stderr:
        pytest.skip(f"this machine does not allow it: {done.stderr}")
    return done


def test_gunicorn_is_sealed_and_started_without_proc(tmp_path):
    ends = "import os\ndef post_worker_init(worker): os.kill(worker.ppid, 15)\n"
    (tmp_path / "conf.py").write_text(ends)
    done = run(
        NO_PROC,
        *("-m", "pasture", "run", "gunicorn", "steady_app:application", "-w", "1"),
        *("-b", "127.0.0.1:0", "--no-control-socket", "-c", tmp_path / "conf.py"),
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "sealed, " in done.stderr
    assert "Booting worker" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",),
        ("explain", "1"),
        ("top", "--once"),
        ("top", "--once", "1"),
        ("doctor",),
        ("doctor", "1"),
        ("doctor", "--", "true"),
        ("try", "steady_app:application"),
    ],
)
def test_other_commands_say_in_a_sentence_what_they_miss(arguments):
    done = run(NO_PROC, "-m", "pasture", *arguments)
    assert done.returncode == 9, done.stderr
    assert "/proc" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_process_that_proc_hides_is_not_said_to_have_ended():
    here = os.getpid()
    done = run(HIDDEN, PROGRAMS / "unprivileged.py", "-m", "pasture", "explain", here)
    assert done.returncode == 9, done.stderr
    assert "hides" in done.stderr
