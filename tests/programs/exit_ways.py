"""Ends processes in the ways that are named on the command line, and reports each status.

    python exit_ways.py plain|POLICY HOST FILE WAY ...

HOST is what ends: a child of os.fork (fork), the same inside of a process of multiprocessing that
seals (nested), a process of multiprocessing (process), or one of a pool (pool). Both streams get a
line that names the way before its process is forked, and one before the parent itself ends. Without
pasture (`plain`) and with a policy, the two runs must look the same from outside.

    python exit_ways.py main "" FILE WAY

ends the process itself.
"""

import atexit
import ctypes
import io
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
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
    kept = Path(sys.argv[3]).open("w")
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


# --- Hostile ones: what they do to the exception, the hooks and atexit decides on the status -----

WRITTEN_BY_C = b"a function of C's own atexit"


def exit_by_a_class_with_a_code():
    class Exit(SystemExit):
        code = 3

    raise Exit


def exit_by_a_property_code():
    class Exit(SystemExit):
        @property
        def code(self):
            print("the code was asked for")
            return 6

    raise Exit


def exit_by_getattribute():
    class Exit(SystemExit):
        def __getattribute__(self, name):
            return 11 if name == "code" else super().__getattribute__(name)

    raise Exit(2)


def exit_by_a_code_that_fails():
    class Exit(SystemExit):
        code = property(lambda self: 1 / 0)

    raise Exit(5)


def exit_by_a_code_set_later():
    error = SystemExit(5)
    error.code = 6
    raise error


def exit_by_an_int_of_its_own():
    class Code(int):
        def __index__(self):
            return 8

    sys.exit(Code(9))


def exit_by_a_text_that_fails():
    class Text:
        def __str__(self):
            raise ValueError

    sys.exit(Text())


def exit_in_a_group():
    raise BaseExceptionGroup("group", [SystemExit(4)])


def fail_and_trim_the_traceback():
    def hook(kind, error, trace):
        sys.last_traceback = trace.tb_next

    sys.excepthook = hook
    fail()


def fail_and_forget_the_traceback():
    def hook(*info):
        for name in ("last_traceback", "last_type", "last_value", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)

    sys.excepthook = hook
    fail()


def fail_in_an_excepthook():
    def hook(*info):
        raise KeyError

    sys.excepthook = hook
    fail()


def note_a_handled_failure():
    try:
        fail()
    except ValueError as error:
        sys.last_exc = sys.last_value = error
        sys.last_type = type(error)
        sys.last_traceback = error.__traceback__


def interrupted_by_a_subclass():
    class Interrupt(KeyboardInterrupt):
        pass

    raise Interrupt


def interrupted_under_an_excepthook():
    sys.excepthook = lambda *info: None
    raise KeyboardInterrupt


def run_atexit_functions_and_leave():
    atexit.register(print, "run by hand", flush=True)
    atexit._run_exitfuncs()
    os._exit(7)


def run_atexit_functions_and_replace_the_process():
    atexit._run_exitfuncs()
    replace_the_process()


def run_atexit_functions_and_go_on():
    atexit._run_exitfuncs()
    print("goes on")
    leave_a_file_open()
    sys.exit(17)


def run_atexit_functions_at_exit():
    def work():
        atexit.unregister(work)
        atexit._run_exitfuncs()
        print("goes on", flush=True)

    atexit.register(work)
    sys.exit(18)


def run_atexit_functions_from_c():
    ctypes.pythonapi.PyObject_CallNoArgs.restype = ctypes.c_void_p
    ctypes.pythonapi.PyObject_CallNoArgs(ctypes.py_object(atexit._run_exitfuncs))
    sys.exit(20)


def clear_the_atexit_functions():
    atexit._clear()
    sys.exit(19)


def register_in_an_atexit_function():
    atexit.register(lambda: atexit.register(print, "registered at exit", flush=True))
    sys.exit(15)


def start_a_thread_at_exit():
    def work():
        atexit.register(print, "registered by a thread of atexit", flush=True)
        time.sleep(0.1)
        print("thread of atexit", flush=True)

    atexit.register(lambda: threading.Thread(target=work).start())
    sys.exit(16)


def fork_in_an_excepthook():
    def hook(*info):
        pid = os.fork()
        if pid:
            print("forked in the hook, ended with", os.waitpid(pid, 0)[1], flush=True)

    sys.excepthook = hook
    fail()


def fork_below_c():
    children = []

    @ctypes.CFUNCTYPE(None)
    def fork():
        children.append(os.fork())

    fork()
    if children[0]:
        print("forked below C, ended with", os.waitpid(children[0], 0)[1])
    sys.exit(22 if children[0] else 23)


def exit_from_c():
    ctypes.CDLL(None).exit(31)


def end_the_interpreter_from_c():
    ctypes.pythonapi.Py_Exit(29)


def exit_by_a_program_of_c():
    ctypes.pythonapi.PyRun_SimpleString(b"import sys; sys.exit(34)")


def run_functions_of_c_at_exit():
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    libc.__cxa_atexit(libc.puts, ctypes.c_void_p(libc.strdup(WRITTEN_BY_C)), None)
    libc.puts(b"buffered by C")
    sys.exit(32)


def end_the_interpreter_in_a_function_of_c():
    finalize = ctypes.cast(ctypes.pythonapi.Py_FinalizeEx, ctypes.c_void_p)
    ctypes.CDLL(None).__cxa_atexit(finalize, None, None)
    sys.exit(33)


def interrupted_by_a_function_of_c():
    libc = ctypes.CDLL(None)
    interrupt = ctypes.cast(getattr(libc, "raise"), ctypes.c_void_p)
    libc.__cxa_atexit(interrupt, ctypes.c_void_p(signal.SIGINT), None)
    sys.exit(5)


def end_by_an_alarm_while_a_file_is_written():
    global kept
    reader, writer = os.pipe()
    kept = reader, open(writer, "w", buffering=1 << 20)
    kept[1].write("no process reads this" * 20_000)
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    sys.exit(6)


def exit_with_a_stdout_that_cannot_say_whether_it_is_closed():
    class Out:
        closed = property(lambda self: 1 / 0)

        def flush(self):
            os.write(1, b"flushed\n")

    sys.stdout = Out()
    sys.exit(7)


def turn_interactive_at_the_end():
    os.environ["PYTHONINSPECT"] = "1"
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.exit(42)


def keep_a_daemon_thread_busy():
    def spin():
        while True:
            sum(range(1000))

    threading.Thread(target=spin, daemon=True).start()
    time.sleep(0.05)
    sys.exit(28)


def exit_in_an_event_loop():
    import asyncio

    async def main():
        sys.exit(36)

    asyncio.run(main())


def exit_under_a_trace_function():
    sys.settrace(lambda *event: None)
    sys.exit(39)


def exit_in_little_recursion():
    sys.setrecursionlimit(70)
    sys.exit(38)


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


PLAIN = "plain"


def seal(policy):
    import pasture
    from pasture.sealing.gc_settings import begin_loading

    begin_loading(pasture.POLICIES[policy])
    pasture.seal(policy)


def name_in_both_streams(way):
    for stream in (sys.stdout, sys.stderr):
        print(f"\n--- {way}", file=stream, flush=True)


def end_a_child_of_fork(way):
    """Returns whether this is the child, which goes on to its end."""
    child = os.fork()
    if not child:
        WAYS[way]()
        return True
    print("child ended with", os.waitpid(child, 0)[1], flush=True)
    return False


def end_a_process(way):
    process = get_context("fork").Process(target=WAYS[way], name="Process")
    process.start()
    process.join()
    print("child ended with", process.exitcode, flush=True)


def end_a_process_of_a_pool(way):
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        answer = pool.submit(WAYS[way])
        process = next(iter(pool._processes.values()))
        error = answer.exception()
    process.join()
    print("child ended with", process.exitcode, type(error).__name__, flush=True)


ENDS = {
    "fork": end_a_child_of_fork,
    "nested": end_a_child_of_fork,
    "process": end_a_process,
    "pool": end_a_process_of_a_pool,
}


def main(policy, host, ways):
    if policy != PLAIN:
        seal(policy)
    atexit.register(print, "registered before the fork")
    for way in ways:
        name_in_both_streams(way)
        if ENDS[host](way):
            return
    name_in_both_streams("parent")


if __name__ == "__main__":
    atexit.register(print, "registered before anything")
    if sys.argv[1] == "main":
        warnings.simplefilter("ignore")  # with -W it would not start out of an image
        WAYS[sys.argv[-1]]()
    else:
        policy, host, _, *ways = sys.argv[1:]
        if host == "nested":
            sealing = get_context("fork").Process(target=main, args=(policy, host, ways))
            sealing.start()
            sealing.join()
            print("the sealed process ended with", sealing.exitcode)
        else:
            main(policy, host, ways)
