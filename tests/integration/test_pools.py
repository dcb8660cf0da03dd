"""Pools, executors and the forkserver of the standard library under a seal."""

import json
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from running import completed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PRELUDE = """
import json, multiprocessing, os, signal, sys, threading, time
import pasture
from concurrent.futures import ProcessPoolExecutor

RECORDS = [{"id": i + 1000, "tags": [f"tag {i}"]} for i in range(60_000)]

def private_kib():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

def read(_=None):
    for record in RECORDS:
        for tag in record["tags"]:
            held = (record["id"], tag)
    return os.getpid(), private_kib()

def show(**found):
    print(json.dumps(found))
"""


@pytest.fixture
def execute(tmp_path):
    """Run a program from a file, as children of a forkserver import it again."""

    def execute(program, *, prelude=PRELUDE):
        path = tmp_path / "program.py"
        path.write_text(prelude + textwrap.dedent(program))
        return completed([sys.executable, path], cwd=tmp_path)

    return execute


@pytest.fixture
def run(execute):
    def run(program, **named):
        done = execute(program, **named)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.interpreter
@pytest.mark.immortality
def test_workers_of_a_pool_read_everything_and_stay_small(run):
    found = run("""
        with pasture.sealed() as herd, herd.context.Pool(2) as pool:
            show(sealed=herd.report.sealed, workers=pool.map(read, range(6), chunksize=1))
        """)
    plain = run("""
        with multiprocessing.get_context("fork").Pool(2) as pool:
            show(workers=pool.map(read, range(6), chunksize=1))
        """)
    assert found["sealed"]
    assert min(kib for _, kib in plain["workers"]) > 8000, "the heap is too small to show anything"
    assert max(kib for _, kib in found["workers"]) < 2500


@pytest.mark.interpreter
@pytest.mark.immortality
def test_workers_of_an_executor_and_their_replacements_stay_small(run):
    found = run("""
        with pasture.sealed() as herd:
            with herd.context.Pool(1, maxtasksperchild=1) as pool:
                replaced = [pool.apply(read) for _ in range(4)]
            with ProcessPoolExecutor(2, mp_context=herd.context) as executor:
                executed = list(executor.map(read, range(4)))
            show(replaced=replaced, executed=executed)
        """)
    assert len({pid for pid, _ in found["replaced"]}) == 4
    assert max(kib for _, kib in found["replaced"] + found["executed"]) < 2500


@pytest.mark.interpreter
@pytest.mark.immortality
def test_a_process_that_is_killed_leaves_its_successor_as_small(run):
    # Not a pool's: one that is killed may hold the lock of the pool's queue, for ever.
    found = run("""
        def work(results):
            results.send(read())
            time.sleep(60)

        def start(context):
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(sending,))
            process.start()
            assert receiving.poll(30)
            return process, receiving.recv()[1]

        with pasture.sealed() as herd:
            first, first_kib = start(herd.context)
            first.kill()
            first.join(30)
            second, second_kib = start(herd.context)
            second.kill()
            second.join(30)
            show(code=first.exitcode, kib=[first_kib, second_kib])
        """)
    assert found["code"] == -signal.SIGKILL
    assert max(found["kib"]) < 2500


@pytest.mark.interpreter
@pytest.mark.immortality
def test_children_of_a_sealed_forkserver_stay_small(run, tmp_path):
    (tmp_path / "stock_list.py").write_text(
        "ITEMS = [{'id': i + 1000, 'tags': [f'tag {i}']} for i in range(60_000)]\n"
    )
    program = """
    import stock_list
    def look(_):
        for item in stock_list.ITEMS:
            held = (item["id"], item["tags"][0])
        return os.getpid(), private_kib()
    if __name__ == "__main__":
        if {sealed}:
            context = pasture.sealed_forkserver("stock_list")
        else:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["__main__", "stock_list"])
        with context.Pool(2) as pool:
            show(workers=pool.map(look, range(4), chunksize=1), me=os.getpid())
    """
    small = PRELUDE.replace("60_000", "1")
    sealed = run(program.format(sealed=True), prelude=small)
    plain = run(program.format(sealed=False), prelude=small)
    assert min(kib for _, kib in plain["workers"]) > 8000, "the heap is too small to show anything"
    assert max(kib for _, kib in sealed["workers"]) < 4500


@pytest.mark.interpreter
@pytest.mark.parametrize("strict", [False, True])
def test_a_module_that_a_sealed_forkserver_cannot_import_is_reported(execute, tmp_path, strict):
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    done = execute(f"""
        if __name__ == "__main__":
            os.environ["PASTURE_STRICT"] = {str(strict)!r}
            context = pasture.sealed_forkserver("json", "tabel", "broken")
            process = context.Process(target=print, args=("works",), kwargs={{"flush": True}})
            try:
                process.start()
                process.join()
            except (EOFError, ConnectionError):
                pass
        """)
    for name, why in (("tabel", "tabel"), ("broken", "nothing_of_that_name")):
        said = f"{name} cannot be imported: ModuleNotFoundError: No module named '{why}'"
        assert (said in done.stderr) is (not strict or name == "tabel"), done.stderr
    assert "json" not in done.stderr
    assert (done.stdout == "works\n") is (not strict)


def test_a_forkserver_that_runs_already_is_refused(execute):
    done = execute("""
        if __name__ == "__main__":
            context = multiprocessing.get_context("forkserver")
            process = context.Process(target=os.getpid)
            process.start()
            process.join()
            pasture.sealed_forkserver("json")
        """)
    assert "UsageError: the forkserver of this process is running already" in done.stderr


@pytest.mark.parametrize("policy", ["seel", ""])
def test_an_unknown_policy_ends_the_forkserver_with_a_message(execute, policy):
    found = execute(f"""
        if __name__ == "__main__":
            os.environ["PASTURE_POLICY"] = {policy!r}
            context = pasture.sealed_forkserver("json")
            process = context.Process(target=os.getpid)
            try:
                process.start()
                process.join()
                show(code=process.exitcode)
            except (EOFError, ConnectionError, BrokenPipeError):
                show(code=None)
        """)
    if policy:
        assert "error: no policy is called 'seel'" in found.stderr
    else:
        assert json.loads(found.stdout.splitlines()[-1]) == {"code": 0}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_context_that_does_not_fork_from_here_is_refused_by_name(execute, method):
    done = execute(f"""
        if __name__ == "__main__":
            try:
                with pasture.sealed({method!r}):
                    raise SystemExit("was not refused")
            except pasture.UsageError as error:
                show(message=error.message, hint=error.hint)
        """)
    report = json.loads(done.stdout)
    assert f"start method '{method}'" in report["message"]
    assert ("sealed_forkserver" in report["hint"]) is (method == "forkserver")


def test_a_running_thread_is_refused_when_strict_and_a_warning_otherwise(execute):
    done = execute("""
        def look():
            while True: pass
        threading.Thread(target=look, name="lookout", daemon=True).start()
        with pasture.sealed() as herd:
            reason = herd.report.reason
        try:
            with pasture.sealed(strict=True):
                raise SystemExit("was not refused")
        except pasture.SealFailed as error:
            show(reason=reason, message=error.message)
        """)
    found = json.loads(done.stdout)
    assert "lookout" in found["reason"] and "lookout" in found["message"]
    assert "lookout" in done.stderr


def test_importing_pasture_does_not_import_multiprocessing(tmp_path):
    program = "import sys, pasture; print('multiprocessing' in sys.modules)"
    done = completed([sys.executable, "-c", program])
    assert done.stdout == "False\n"


@pytest.mark.immortality
@pytest.mark.parametrize("name", ["data_loader.py", "forkserver.py"])
def test_the_examples_keep_their_workers_small(name):
    arguments = ["--objects", "200000"] if name == "data_loader.py" else []
    env = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    done = completed([sys.executable, str(EXAMPLES / name), *arguments], env=env)
    assert done.returncode == 0, done.stderr
    workers = json.loads(done.stdout.splitlines()[-1])["workers"]
    assert len({worker["total"] for worker in workers}) == 1
    limit = 2_000_000 if name == "data_loader.py" else 5_000_000
    assert max(worker["private"] for worker in workers) < limit


def test_signals_end_a_sealed_pool_as_any_other(run):
    found = run("""
        with pasture.sealed() as herd:
            process = herd.context.Process(target=time.sleep, args=(60,))
            process.start()
            process.terminate()
            process.join(30)
            failed = herd.context.Process(target=sys.exit, args=(7,))
            failed.start()
            failed.join(30)
            show(codes=[process.exitcode, failed.exitcode])
        """)
    assert found["codes"] == [-signal.SIGTERM, 7]
