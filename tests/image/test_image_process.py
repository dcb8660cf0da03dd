"""The process of a program out of an image is the caller's: nothing stands between them."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from images import BIN, STUB, TIMEOUT_S, Images, compile_library, read_until

pytestmark = [pytest.mark.once, pytest.mark.integration]

WAIT = "import time; print(1, flush=True); time.sleep(60)"


def test_the_process_is_the_one_that_the_caller_made(images: Images, tmp_path: Path) -> None:
    def set_up() -> None:
        os.setsid()
        os.chdir(tmp_path)
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (950, 990))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        for number in (signal.SIGHUP, signal.SIGINT):  # as a shell ignores them
            signal.signal(number, signal.SIG_IGN)

    source = (
        "import os, resource, signal; print(os.getcwd(), os.umask(0), os.nice(0), os.getppid(), "
        "resource.getrlimit(7), resource.getrlimit(9), signal.pthread_sigmask(0, []), "
        "signal.getsignal(1), signal.getsignal(2), "
        "os.getpid() == os.getsid(0) == os.getpgrp())"
    )
    started = images.served("-c", source, preexec_fn=set_up)
    assert started == images.python("-c", source, preexec_fn=set_up)
    assert (
        b"default_int_handler" not in started.out
        and b"950" in started.out
        and started.out.endswith(b"True\n")
    )


def test_descriptors_are_handed_over_under_their_numbers(images: Images) -> None:
    """Three hundred of them."""
    reader, writer = os.pipe()
    numbers = [writer, *(os.dup(writer) for _ in range(300))]
    source = (
        f"import os; os.write({numbers[-1]}, b'here'); print(os.get_inheritable({writer}),"
        " len([n for n in os.listdir('/proc/self/fd') if int(n) < 900]))"
    )
    started = images.served("-c", source, pass_fds=numbers)
    assert started == images.python("-c", source, pass_fds=numbers)
    assert (started.status, os.read(reader, 9)) == (0, b"herehere")
    for number in (reader, *numbers):
        os.close(number)


SLOW = """
import os, threading
class Slow:
    def __del__(self, sleep=__import__("time").sleep):
        sleep(6)  # longer than any lock is waited for
        os.write(1, b"destroyed")
slow = Slow()
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_the_end_of_a_program_with_threads_waits_for_a_slow_destructor(images: Images) -> None:
    started = images.served("-c", SLOW)
    assert (started.status, started.out) == (0, b"destroyed")


SHOWS_TERMINAL = """
import os, sys
print(os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), sys.stdout.line_buffering,
      os.ttyname(0) == os.ttyname(1))
try: print(input("? ")[::-1])
except KeyboardInterrupt: print("caught")
"""


@pytest.mark.parametrize(("typed", "said"), [(b"abc\n", b"cba"), (b"\x03", b"caught")])
def test_the_terminal_is_the_programs_own(images: Images, typed: bytes, said: bytes) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        take_interrupts()
        os.execve(STUB, [str(STUB), "-c", SHOWS_TERMINAL], images.variables)
    out = read_until(terminal, b"?")
    # CPython loses a signal to input() that comes before the system call it waits in.
    wait_for_state(pid, "S")
    os.write(terminal, typed)
    out += read_until(terminal)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"True True True True" in out and said in out


def test_no_program_looks_functions_of_libraries_up_anew(own_images: Images) -> None:
    # It touches so many pages that a ^C before input() waits was lost ten times as often as by
    # python.
    own_images.built("--preload", "json", "--env", "LD_DEBUG=bindings")
    own_images.environ["LD_DEBUG"] = "bindings"
    ended = own_images.served("-c", "import os; print(len(os.getloadavg()))")
    assert (ended.out, b"binding file" in ended.err) == (b"3\n", False)


def test_an_interrupt_on_the_way_to_the_program_ends_it(own_images: Images) -> None:
    own_images.module(
        "interrupted",
        "import os, signal\ndef hook():\n"
        "  if b'went on' in open('/proc/self/cmdline', 'rb').read():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "os.register_at_fork(after_in_child=hook)\n",
    )
    own_images.built("--preload", "interrupted")
    ended = own_images.run("-c", "print('went on')", preexec_fn=take_interrupts)
    assert (ended.status, ended.out) == (-signal.SIGINT, b"")


def take_interrupts() -> None:
    """A suite that a shell started in the background inherits an ignored SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_signal_stops_or_ends_the_program_itself(images: Images) -> None:
    with images.popen(["-c", WAIT], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for number, state in ((signal.SIGSTOP, "T"), (signal.SIGCONT, "S")):
            process.send_signal(number)
            wait_for_state(process.pid, state)
        process.send_signal(signal.SIGSEGV)
        assert process.wait(TIMEOUT_S) == -signal.SIGSEGV


def wait_for_state(pid: int, state: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert time.monotonic() < end
        time.sleep(0.02)


def copy_of_stub(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(STUB, folder))


def test_a_stub_without_an_interpreter_beside_it_says_so(images: Images, tmp_path: Path) -> None:
    alone = copy_of_stub(tmp_path)
    ended = images.run("-c", "pass", program=alone)
    assert (ended.status, b"PASTURE_PYTHON" in ended.err) == (127, True)
    (tmp_path / "python").symlink_to("pasture-python")
    assert images.run("-c", "pass", program=alone).status == 127


def test_an_interpreter_of_the_same_number_in_another_file_system_is_one(
    images: Images, tmp_path: Path
) -> None:
    """Both are the first file there."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    script = f"""
    mount -t tmpfs none {here} && mount -t tmpfs none {there} || exit 99
    cp {STUB} {here} && cp /bin/echo {there}/python && ln -s {there}/python {here}
    [ $(stat -c %i {here}/pasture-python) = $(stat -c %i {there}/python) ] || exit 98
    PASTURE_IMAGE=0 {here}/pasture-python -c word"""
    ended = images.in_mounts(script)
    assert (ended.status, ended.out) == (0, b"-c word\n"), ended.err


def test_a_stub_of_a_long_path_starts_programs_out_of_images(
    images: Images, tmp_path: Path
) -> None:
    """The kernel writes each of these bytes as four: a line that is read in parts."""
    stub = copy_of_stub(tmp_path / "/".join(["\n" * 250] * 5))
    assert images.why(program=stub, environ={"PASTURE_PYTHON": str(BIN / "python")}) == ""


def test_without_proc_the_interpreter_runs(images: Images) -> None:
    """It is not found, either, where the kernel was given the stub as a descriptor."""
    source = f"import os; os.execve(os.open({str(STUB)!r}, 0), ['x', '-c', ''], dict(os.environ))"
    script = 'mount -t tmpfs none /proc; "$1" -c "print(1)"; exec "$2" -c "$3"'
    ended = images.in_mounts(script, STUB, BIN / "python", source)
    assert (ended.status, ended.out) == (127, b"1\n"), ended
    assert b"there is no python next to it" in ended.err


ENDS = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *blocks[200000];
void take(void) { for (int i = 0; i < 200000; i++) blocks[i] = malloc(100); }
static long own_kib(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) (void)sscanf(line, "RssAnon: %ld", &kib);
    fclose(file);
    return kib;
}
static void *wait_for_end(void *none) { pause(); return none; }
__attribute__((destructor)) static void end(void) {
    long before = own_kib();
    for (int i = 0; i < 200000; i++) free(blocks[i]);
    long freed = own_kib() - before;
    for (int i = 0; i < 4000; i++) free(memset(malloc(100000), 1, 100000));
    printf("%d %d\n", freed < 5000, own_kib() - before < 100000);
    pthread_t thread;
    printf("%d\n", pthread_create(&thread, NULL, wait_for_end, NULL));
    for (int i = 0; i < 1000; i++) free(malloc(100000));
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* the number of the call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("%d ", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    for (int i = 0; i < 400; i++) free(malloc(100000));
    printf("%d\n", mprotect(steps, 1, PROT_READ));
}
"""


def test_a_librarys_destructor_that_frees_memory_starts_a_thread_and_may_change_no_memory_runs(
    own_images: Images,
) -> None:
    library = own_images.folder / "ends.so"
    compile_library(library, ENDS)
    own_images.module("ends", f"import ctypes\nctypes.CDLL({str(library)!r}).take()\n")
    own_images.built("--preload", "ends")
    assert own_images.run("-c", "print(1)").out == b"1\n1 1\n0\n0 -1\n"
