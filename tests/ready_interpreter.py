"""An interpreter that has imported what many programs start with, and forks a process for each.

The import of pasture takes six times as long as the start of an interpreter. A program finds a heap
of which nothing is sealed, has a working folder and output files of its own, and ends as any
program does. One with other variables or options needs an interpreter of its own.
"""

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

# A request is its length and what repr() makes of it. An answer is the pid, then the status.
FORKS = """
import os as _os
while _length := _os.read(0, 8):
    _request = b""
    while len(_request) < int(_length):
        _request += _os.read(0, int(_length) - len(_request))
    _pid = _os.fork()
    if _pid == 0:
        break
    _os.write(1, b"%20d" % _pid)
    _os.write(1, b"%20d" % _os.waitpid(_pid, 0)[1])
else:
    _os._exit(0)
_source, _folder, *_outputs = eval(_request)
_os.chdir(_folder)
for _number, _path in enumerate(["/dev/null", *_outputs]):
    _file = _os.open(_path, _os.O_RDWR | _os.O_APPEND)
    _os.dup2(_file, _number)
    _os.close(_file)
_source = compile(_source, "<string>", "exec")
del _length, _request, _pid, _folder, _outputs, _number, _path, _file, _os
exec(_source)
"""
ANSWER_BYTES = 20
IN_CHILD = """
import os, sys

def in_child(body):
    # Runs body() in a forked child; what it returns is printed by the child.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            print(body())
            sys.stdout.flush()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status:#x}"
"""
"""For preludes."""


class ReadyInterpreter:
    """Starts with the first program, and runs one at a time."""

    def __init__(self, prelude: str, **variables: str) -> None:
        self.prelude, self.command = prelude, [sys.executable, "-c", prelude + FORKS]
        self.own, self.variables = variables, {**os.environ, **variables}
        self.forks: subprocess.Popen[bytes] | None = None

    def run(self, source: str, folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a program until it has ended; returns what came of it."""
        outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
        try:
            paths = [f"/proc/{os.getpid()}/fd/{output}" for output in outputs]
            status = self._wait(repr((source, str(folder), *paths)), timeout_s)
            texts = [os.pread(output, os.fstat(output).st_size, 0).decode() for output in outputs]
        finally:
            for output in outputs:
                os.close(output)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(source, code, *texts)

    def finished(
        self,
        source: str,
        folder: Path,
        timeout_s: float,
        *,
        fresh: bool = False,
        words: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program, which has to end well.

        Args:
            fresh: in an interpreter that has just started, with these options and variables.
        """
        source = textwrap.dedent(source)
        if fresh:
            done = subprocess.run(
                [sys.executable, *words, "-c", self.prelude + source],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env=env,
                cwd=folder,
            )
        else:
            done = self.run(source, folder, timeout_s)
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def _wait(self, request: str, timeout_s: float) -> int:
        variables = {**os.environ, **self.own, "PYTEST_CURRENT_TEST": ""}
        if variables != self.variables:  # a test has set one
            self.end()
        if self.forks is None:
            self.variables = variables
            self.forks = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.variables
            )
        assert self.forks.stdin is not None
        self.forks.stdin.write(b"%8d" % len(request.encode()) + request.encode())
        self.forks.stdin.flush()
        pid = int(self._answer(timeout_s))
        try:
            answer = self._answer(timeout_s)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            self._answer(timeout_s)
            raise
        return int(answer)

    def _answer(self, timeout_s: float) -> bytes:
        assert self.forks is not None and self.forks.stdout is not None
        number = self.forks.stdout.fileno()
        if not select.select([number], [], [], timeout_s)[0]:
            raise TimeoutError(f"no end after {timeout_s} s")
        answer = os.read(number, ANSWER_BYTES)
        assert answer, f"the interpreter that forks ended with status {self.forks.wait()}"
        return answer

    def end(self) -> None:
        """After the last test."""
        if self.forks is not None:
            self.forks.communicate()
            self.forks = None
