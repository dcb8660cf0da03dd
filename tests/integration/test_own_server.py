"""Programs that start a server by themselves: the engine is known, however they were started."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from running import Running, environment, free_port, listens, pasture

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_herd")]

PROGRAMS = Path(__file__).parent.parent / "programs"
PROGRAM = str(PROGRAMS / "own_server.py")
RUN = [sys.executable, "-m", "pasture", "run", "--", "python"]
SEALED = "pasture: policy seal on "


@pytest.fixture
def start(tmp_path):
    """Args of the function: words before the program, its own, and variables."""
    programs = []

    def start(before, *words, children=2, **variables):
        folder = tmp_path / f"start-{len(programs)}"
        folder.mkdir()
        port = free_port()
        variables = {"PYTHONPATH": str(PROGRAMS), "HERD_RECORDS": "100", **variables}
        program = Running(
            [*before, PROGRAM, str(port), *words], folder / "log", environment(variables)
        )
        program.port = port
        programs.append(program)
        program.wait_for(lambda: "Booting worker" in program.log and listens(port), "a start")
        program.wait_for(lambda: len(program.children()) == children, "its processes")
        return program

    yield start
    for program in programs:
        print(f"--- log\n{program.log}")
        program.destroy()


def seen(program):
    """What each place of the program read, in the order of the first reading."""
    lines = (program.log_path.parent / "seen").read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.parametrize("asked", [(), ("on",)], ids=["without", "preload"])
def test_settings_that_the_program_reads_are_those_without_pasture(start, asked):
    plain = start([sys.executable], *asked)
    sealed = [start(RUN, *asked), start([sys.executable], *asked, PASTURE="seal")]
    for program in (plain, *sealed):
        assert program.stop() == 0
    expected = {where: mine(text, plain) for where, text in seen(plain).items()}
    assert expected.keys() == {"load", "post_fork", "worker_exit", "when_ready"}
    for program in sealed:
        assert program.log.count(SEALED) == 1
        assert {where: mine(text, program) for where, text in seen(program).items()} == expected


def mine(text, program):
    own = {str(program.port): "PORT", str(program.log_path.parent): "FOLDER"}
    for word, name in own.items():
        text = text.replace(word, name)
    return json.loads(text)


def test_run_seals_the_engine_that_a_program_starts(start):
    program = start(RUN, PASTURE_WARM="/who")
    assert "warm-up: 1 requests, 0 failed" in program.log
    assert f"next: pasture top {program.pid}\n" in program.log
    assert loads(program) == 1 and program.stop() == 0


@pytest.mark.parametrize("before", [RUN, [sys.executable]], ids=["run", "variable"])
def test_reforks_of_an_engine_that_a_program_starts_name_the_program(start, before):
    variables = {"PASTURE": "seal", "PASTURE_POLICY": "refork", "PASTURE_REFORK": "100000"}
    program = start(before, children=3, **variables)
    assert program.log.count("pasture: policy ") == 1, "the mold's"
    assert f"next: pasture top {program.pid}\n" in program.log
    assert loads(program) == 1 and program.stop() == 0


def test_where_nothing_reforks_the_server_is_named_and_no_shell(start):
    program = start(RUN, "reuse-port", PASTURE_REFORK="100000")
    assert "no refork" in program.log
    assert f"next: pasture top {program.pid}\n" in program.log
    assert program.stop() == 0


def loads(program):
    lines = (program.log_path.parent / "seen").read_text().splitlines()
    return [line.split()[0] for line in lines].count("load")


def test_run_starts_the_program_again_for_an_upgrade(start):
    program = start(RUN)
    program.send_signal(signal.SIGUSR2)
    program.wait_for(lambda: program.log.count(SEALED) == 2, "a second server that is sealed")
    assert program.log.count("program ") == 2
    [new] = [int(line.split()[1]) for line in program.log.splitlines() if "program " in line][1:]
    os.kill(new, signal.SIGTERM)
    program.wait_for(lambda: new not in program.children(), "the end of the second server")
    assert program.stop() == 0


def test_with_a_moment_that_the_user_names_the_engine_has_no_part(start):
    after = [*RUN[:-2], "--after", "herd_app", *RUN[-2:]]
    program = start(after)
    assert SEALED not in program.log, "only workers import it"
    assert program.stop() == 0


def test_commands_know_a_server_by_its_scoreboard(start, tmp_path):
    program = start(RUN)
    program.wait_for_starts(2)

    def shown(*words):
        return pasture(*words, program.pid).stdout

    shown("explain", "--json", str(tmp_path / "explained"))
    assert json.loads((tmp_path / "explained").read_text())["warms_up"]
    assert "the application is loaded after the fork" not in shown("doctor")
    assert program.stop() == 0
