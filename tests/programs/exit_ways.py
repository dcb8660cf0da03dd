"""Forks a child for each way to end named on the command line, and reports its status.

    python exit_ways.py plain|POLICY FILE WAY ...

Both streams get a line that names the way before its child is forked, and one before the parent
itself ends. Without pasture (`plain`)
and with a policy, the two runs must look the same from outside.
"""

import atexit
import io
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from pathlib import Path
from sys import exit as early_bound_exit


def run_to_the_end():
    pass


def exit_with(code):
    def way():
        try:
            sys.exit(code)
        finally:
            print("finally runs")

    return way


def exit_at_once():
    sys.exit(3)


def exit_through_name_bound_early():
    early_bound_exit(3)


def raise_system_exit():
    raise SystemExit(3)


def raise_system_exit_class():
    raise SystemExit


class OwnExit(SystemExit):
    pass


def raise_subclass_of_system_exit():
    raise OwnExit(6)


def exit_from_with_and_nested_calls():
    with io.StringIO():
        exit_at_once()


def catch_system_exit():
    try:
        sys.exit(3)
    except SystemExit as caught:
        print("caught", caught.code)


def catch_one_exit_and_leave_by_another():
    try:
        sys.exit(3)
    except SystemExit:
        sys.exit(4)


def fail():
    raise ValueError("no code catches this")


def fail_with_a_cause():
    try:
        fail()
    except ValueError as error:
        raise KeyError("nor this") from error


def catch_a_failure():
    try:
        fail()
    except ValueError:
        sys.excepthook(*sys.exc_info())


def show_a_failure_as_a_shell_would():
    import code

    code.InteractiveInterpreter().runsource("1 / 0")


def fail_under_an_excepthook():
    sys.excepthook = lambda *info: print("hook saw", info[0].__name__)
    fail()


def exit_in_an_excepthook():
    def hook(*info):
        raise SystemExit(9)

    sys.excepthook = hook
    fail()


def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)


def raise_keyboard_interrupt():
    raise KeyboardInterrupt


def catch_an_interrupt():
    try:
        interrupted()
    except KeyboardInterrupt:
        print("caught")


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def handle_termination():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    terminated()


def leave_at_once():
    print("lost, as it is not flushed")
    os._exit(5)


def register_more_functions():
    atexit.register(print, "registered in the child, first")
    atexit.register(print, "registered in the child, second")


def fail_in_an_atexit_function():
    atexit.register(lambda: 1 / 0)
    sys.exit(3)


def exit_in_an_atexit_function():
    atexit.register(sys.exit, 8)
    sys.exit(3)


def write_much_without_a_newline():
    print("x" * 100_000, end="")
    sys.stderr.write("to stderr, without a newline")


def write_bytes_below_the_text():
    sys.stdout.buffer.write(b"bytes of the layer below\n")


def leave_a_file_open():
    global kept
    kept = Path(sys.argv[2]).open("w")
    kept.write("written and never flushed")


def close_stdout():
    sys.stdout.close()


def take_stdout_away():
    sys.stdout = None


def fill_the_disk():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    print("does not fit")
    sys.exit(3)


def lose_the_reader():
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.close(reader)
    print("no process reads this")


def fork_again():
    grandchild = os.fork()
    if grandchild == 0:
        atexit.register(print, "registered in the grandchild")
        sys.exit(4)
    print("grandchild ended with", os.waitpid(grandchild, 0)[1])
    sys.exit(3)


def fork_again_and_fail():
    grandchild = os.fork()
    if grandchild == 0:
        fail()
    print("grandchild ended with", os.waitpid(grandchild, 0)[1])


def fork_after_a_printed_failure():
    catch_a_failure()
    fork_again()


def fork_in_an_atexit_function():
    def work():
        pid = os.fork()
        if pid:
            print("forked at exit, ended with", os.waitpid(pid, 0)[1])

    atexit.register(work)
    sys.exit(3)


def wait_for_a_thread():
    def work():
        time.sleep(0.2)
        print("the thread has finished")

    threading.Thread(target=work).start()
    sys.exit(3)


def leave_a_daemon_thread():
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def exit_in_a_thread():
    threading.Thread(target=exit_at_once).start()


def fail_in_a_thread():
    threading.Thread(target=fail, name="worker").start()


def fork_in_a_thread():
    def work():
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        print("forked in a thread, ended with", os.waitpid(pid, 0)[1])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def start_a_program():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print('program'); sys.exit(7)"],
        preexec_fn=os.getpid,
        stdout=subprocess.PIPE,
    )
    print(done.stdout, done.returncode)


def start_a_multiprocessing_child():
    process = get_context("fork").Process(target=exit_at_once)
    process.start()
    process.join()
    print("process ended with", process.exitcode)


def replace_the_process():
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.exit(7)"])


WAYS = {
    **{
        f"exit_with_{name}": exit_with(code)
        for name, code in {
            "nothing": None,
            "0": 0,
            "3": 3,
            "text": "a complaint",
            "minus_1": -1,
            "256": 256,
            "2_to_40": 2**40,
            "2_to_70": 2**70,
            "true": True,
            "tuple": (1, 2),
            "float": 2.0,
        }.items()
    },
    **{
        name: function
        for name, function in list(globals().items())
        if callable(function)
        and getattr(function, "__module__", None) == __name__
        and not isinstance(function, type)
        and name != "exit_with"
    },
}


def seal(policy):
    import pasture
    from pasture.sealing.gc_settings import begin_loading

    begin_loading(pasture.POLICIES[policy])
    pasture.seal(policy)


def name_in_both_streams(way):
    for stream in (sys.stdout, sys.stderr):
        print(f"\n--- {way}", file=stream, flush=True)


if __name__ == "__main__":
    policy, _, *ways = sys.argv[1:]
    atexit.register(print, "registered before anything")
    if policy != "plain":
        seal(policy)
    atexit.register(print, "registered before the fork")
    for way in ways:
        name_in_both_streams(way)
        child = os.fork()
        if not child:
            WAYS[way]()
            break
        print("child ended with", os.waitpid(child, 0)[1], flush=True)
    else:
        name_in_both_streams("parent")
