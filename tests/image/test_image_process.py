"""The process of a program out of an image is the caller's: nothing stands between them."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from images import BIN, STUB, TIMEOUT_S, Images, compile_library, read_until

pytestmark = [pytest.mark.once, pytest.mark.integration]

WAIT = "import time; print(1, flush=True); time.sleep(60)"


def test_the_program_has_the_id_the_parent_and_the_session_of_the_stub(images: Images) -> None:
    source = "import os; print(os.getpid(), os.getppid(), os.getsid(0), os.getpgrp())"
    process = images.popen(["-c", source], stdout=subprocess.PIPE, start_new_session=True)
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert out.split() == [f"{n}".encode() for n in (process.pid, os.getpid(), *[process.pid] * 2)]


def test_what_the_caller_has_set_for_a_process_holds(images: Images, tmp_path: Path) -> None:
    def set_up() -> None:
        os.chdir(tmp_path)
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (950, 990))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    source = (
        "import os, resource, signal; print(os.getcwd(), os.umask(0), os.nice(0), "
        "resource.getrlimit(7), resource.getrlimit(9), signal.pthread_sigmask(0, []))"
    )
    started = images.run("-c", source, preexec_fn=set_up)
    assert started == images.python("-c", source, preexec_fn=set_up)
    assert b"950" in started.out


def test_descriptors_are_handed_over_under_their_numbers(images: Images) -> None:
    reader, writer = os.pipe()
    source = f"import os; os.write({writer}, b'here'); print(os.get_inheritable({writer}))"
    started = images.run("-c", source, pass_fds=[writer])
    os.close(writer)
    assert os.read(reader, 9) == b"here"
    assert started.out == b"True\n"
    os.close(reader)


def test_three_hundred_descriptors_are_no_obstacle(images: Images) -> None:
    numbers = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    try:
        source = "import os; print(len([n for n in os.listdir('/proc/self/fd') if int(n) < 900]))"
        started = images.run("-c", source, pass_fds=numbers)
        assert started == images.python("-c", source, pass_fds=numbers)
    finally:
        for number in numbers:
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
    started = images.run("-c", SLOW, environ={"PASTURE_IMAGE_VERBOSE": "1"})
    assert (started.status, started.out) == (0, b"destroyed")
    assert b"started from the image" in started.err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_that_ends_the_program_is_what_the_caller_sees(
    images: Images, number: int
) -> None:
    process = images.popen(["-c", WAIT], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == -number
    process.stdout.close()


def test_the_terminal_is_the_programs_own(images: Images) -> None:
    source = (
        "import os, sys; print(os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), "
        "sys.stdout.line_buffering, os.ttyname(0) == os.ttyname(1)); print(input('? ')[::-1])"
    )
    out = on_terminal(images, ["-c", source], b"abc\n")
    assert b"True True True True" in out
    assert b"cba" in out


def test_control_c_interrupts_the_program_as_before(images: Images) -> None:
    source = "print('ready', flush=True)\ntry: input()\nexcept KeyboardInterrupt: print('caught')"
    assert b"caught" in on_terminal(images, ["-c", source], b"\x03", after=b"ready")


def test_no_program_looks_functions_of_libraries_up_anew(own_images: Images) -> None:
    # It touches so many pages that a ^C before input() waits was lost ten times as often as by
    # python.
    own_images.built("--preload", "json", "--env", "LD_DEBUG=bindings")
    own_images.environ["LD_DEBUG"] = "bindings"
    ended = own_images.run("-c", "import os; print(len(os.getloadavg()))")
    assert (ended.out, b"binding file" in ended.err) == (b"3\n", False)
    assert own_images.why() == ""


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


def test_control_z_stops_the_program_itself(images: Images) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(images.variables)
        os.execv("/bin/sh", ["sh", "-c", f'{STUB} -c "{WAIT}" & wait $!; echo over; read x'])
    try:
        read_until(terminal, b"1")
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), signal.SIGSTOP)
        wait_for_state(int(child), "T")
        os.kill(int(child), signal.SIGCONT)
        wait_for_state(int(child), "S")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def wait_for_state(pid: int, state: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert time.monotonic() < end
        time.sleep(0.02)


def on_terminal(images: Images, words: list[str], typed: bytes, after: bytes = b"?") -> bytes:
    """What a program prints on a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        take_interrupts()
        os.execve(STUB, [str(STUB), *words], images.variables)
    out = read_until(terminal, after)
    # CPython loses a signal to input() that comes before the system call it waits in.
    wait_for_state(pid, "S")
    os.write(terminal, typed)
    out += read_until(terminal)
    os.waitpid(pid, 0)
    os.close(terminal)
    return out


def test_a_stub_without_an_interpreter_beside_it_says_so(images: Images, tmp_path: Path) -> None:
    alone = tmp_path / "pasture-python"
    alone.write_bytes(STUB.read_bytes())
    alone.chmod(0o755)
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
    folder = tmp_path / "/".join(["\n" * 250] * 5)
    folder.mkdir(parents=True)
    stub = folder / "pasture-python"
    stub.write_bytes(STUB.read_bytes())
    stub.chmod(0o755)
    given = {"PASTURE_PYTHON": str(BIN / "python"), "PASTURE_IMAGE_VERBOSE": "1"}
    ended = images.run("-c", "print(1)", program=stub, environ=given)
    assert (ended.status, ended.out) == (0, b"1\n"), ended.err
    assert b"started from the image" in ended.err


def test_without_proc_the_interpreter_runs(images: Images) -> None:
    script = 'mount -t tmpfs none /proc && exec "$1" -c "print(1)"'
    ended = images.in_mounts(script, STUB)
    assert (ended.status, ended.out) == (0, b"1\n"), ended.err


ENDS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define BLOCKS 200000
static void *blocks[BLOCKS];
void take(void) { for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(100); }
static long own_kib(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) (void)sscanf(line, "RssAnon: %ld", &kib);
    fclose(file);
    return kib;
}
__attribute__((destructor)) static void end(void) {
    long before = own_kib();
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    long freed = own_kib() - before;
    for (int i = 0; i < 4000; i++) free(memset(malloc(100000), 1, 100000));
    printf("%d %d\n", freed < 5000, own_kib() - before < 100000);
}
"""
THREAD = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void take(void) {}
static void *wait_for_end(void *none) { pause(); return none; }
__attribute__((destructor)) static void end(void) {
    pthread_t thread;
    printf("%d\n", pthread_create(&thread, NULL, wait_for_end, NULL));
    for (int i = 0; i < 1000; i++) free(malloc(100000));
}
"""
REFUSED = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
void take(void) {}
__attribute__((destructor)) static void end(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, steps};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("%d ", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    for (int i = 0; i < 400; i++) free(malloc(100000));
    printf("%d\n", mprotect(steps, 1, PROT_READ));
}
"""


@pytest.mark.parametrize(
    ("source", "printed"),
    [(ENDS, b"1\n1 1\n"), (THREAD, b"1\n0\n"), (REFUSED, b"1\n0 -1\n")],
    ids=["frees memory", "starts a thread", "may change no memory any more"],
)
def test_a_librarys_destructors_run_and_leave_the_image_as_it_is(
    own_images: Images, source: str, printed: bytes
) -> None:
    library = own_images.folder / "ends.so"
    compile_library(library, source)
    own_images.module("ends", f"import ctypes\nctypes.CDLL({str(library)!r}).take()\n")
    own_images.built("--preload", "ends")
    assert own_images.run("-c", "print(1)").out == printed
