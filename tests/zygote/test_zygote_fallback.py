"""Where a request cannot be served as it should be, the interpreter itself runs the program."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest
from zygotes import BIN, STUB, Zygotes

pytestmark = [pytest.mark.once, pytest.mark.integration]

BOUNDARY = Path(__file__).parent.parent / "programs" / "behind_boundary.py"
SOURCE = "import json, sys; print(len(sys.argv))"


def reason(zygotes: Zygotes, *words: str, environ: dict[str, str] | None = None) -> str:
    """Why a request was not served; it must have run all the same."""
    why = zygotes.why(*words, environ=environ)
    assert str(BIN / "python") in why, why
    return why.rpartition(f"{BIN / 'python'}: ")[2]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("namespace", "another namespace"),
        ("no-new-privileges", "NoNewPrivs:"),
        ("seccomp", "NoNewPrivs:"),
        ("capabilities", "Cap"),
    ],
)
def test_behind_a_boundary_of_the_kernel_the_interpreter_runs(
    zygotes: Zygotes, kind: str, said: str
) -> None:
    if kind == "capabilities" and os.geteuid():
        pytest.skip("needs root")
    environ = {**zygotes.environ, "PASTURE_ZYGOTE_VERBOSE": "1"}
    words = [str(BOUNDARY), kind, str(STUB), "-c", SOURCE, "a"]
    ended = zygotes.run(*words, program=Path(sys.executable), env=environ)
    assert ended.out == b"2\n"
    assert said in ended.err.decode()
    assert "served" not in ended.err.decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_gets_nothing_from_a_zygote(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")
    for path in (own_zygotes.folder, own_zygotes.folder / "pasture"):
        path.chmod(0o755)
    (own_zygotes.folder / "pasture" / "zygote").chmod(0o777)
    environ = {**own_zygotes.environ, "PASTURE_ZYGOTE_VERBOSE": "1"}
    words = [str(BOUNDARY), "user", str(STUB), "-c", SOURCE]
    ended = own_zygotes.run(*words, program=Path(sys.executable), env=environ)
    assert "served" not in ended.err.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-X", "dev", "-c", "pass"), "an option: -X"),
        (("-u", "-c", "pass"), "options"),
        (("--version",), "a long option"),
        (("-V",), "the interpreter itself answers"),
        (("nowhere.py",), "no plain file"),
        ((".",), "no plain file"),
    ],
)
def test_what_the_zygote_is_not_for_is_the_interpreters(
    zygotes: Zygotes, words: tuple[str, ...], said: str
) -> None:
    found = reason(zygotes, *words, environ={"PASTURE_ZYGOTE": "json"})
    assert said.partition(":")[0] in found or "option" in found
    assert zygotes.run(*words) == zygotes.python(*words)


@pytest.mark.parametrize(
    "name",
    [
        *("PYTHONPATH", "PYTHONHASHSEED", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "HOME"),
        *("OPENSSL_CONF", "NPY_DISABLE_CPU_FEATURES"),
    ],
)
def test_a_variable_that_matters_at_the_start_is_compared(zygotes: Zygotes, name: str) -> None:
    value = {"LC_ALL": "C"}.get(name, "1")
    assert name in reason(zygotes, "-c", SOURCE, environ={name: value})


def test_a_variable_that_does_not_matter_is_not_compared(zygotes: Zygotes) -> None:
    assert "served" in zygotes.why("-c", SOURCE, environ={"ANYTHING": "1", "TZ": "Asia/Tokyo"})


def test_a_variable_that_a_module_reads_while_it_is_loaded_is_compared(
    own_zygotes: Zygotes,
) -> None:
    module = own_zygotes.folder / "reads_a_variable.py"
    module.write_text("import os\nMODE = os.environ.get('MODE_OF_OURS', 'none')\n")
    own_zygotes.environ["PYTHONPATH"] = str(own_zygotes.folder)
    own_zygotes.pasture("start", "--preload", "reads_a_variable", "--name", "x")
    source = "import reads_a_variable as r; print(r.MODE)"
    assert "served by the zygote: x" in own_zygotes.why("-c", source)
    environ = {"MODE_OF_OURS": "fast"}
    assert "MODE_OF_OURS" in reason(own_zygotes, "-c", source, environ=environ)
    given = {**own_zygotes.environ, **environ}
    assert own_zygotes.run("-c", source, env=given).out == b"fast\n"


def test_a_variable_that_a_library_in_c_reads_unseen_is_compared(own_zygotes: Zygotes) -> None:
    (own_zygotes.folder / "ray.py").write_text("")
    own_zygotes.environ |= {"PYTHONPATH": str(own_zygotes.folder), "RAY_SAME": "1"}
    own_zygotes.pasture("start", "--preload", "ray", "--name", "x")
    assert "served by the zygote: x" in own_zygotes.why("-c", "import ray")
    for environ in ({"RAY_JOB_ID": "2"}, {"RAY_SAME": "2"}):
        found = reason(own_zygotes, "-c", "import ray", environ=environ)
        assert found.endswith(next(iter(environ)))
        assert "served by the zygote: bare" in own_zygotes.why("-c", "pass", environ=environ)


def test_another_limit_of_the_stack_is_not_served(zygotes: Zygotes) -> None:
    def smaller() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.RLIM_INFINITY))

    environ = {**zygotes.environ, "PASTURE_ZYGOTE_VERBOSE": "1"}
    ended = zygotes.run("-c", SOURCE, preexec_fn=smaller, env=environ)
    assert (ended.out, b"limit of the stack" in ended.err) == (b"1\n", True)


def test_without_memory_for_the_image_the_interpreter_runs_or_says_so(zygotes: Zygotes) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (30 << 20, 30 << 20))

    # Too little for the image, which is noticed when this program is gone already.
    served = zygotes.run("-c", "print(1)", preexec_fn=little)
    assert served == zygotes.python("-c", "print(1)", preexec_fn=little)


def test_without_a_server_the_interpreter_runs(own_zygotes: Zygotes) -> None:
    assert "no zygote is there" in reason(own_zygotes, "-c", SOURCE)


def test_a_folder_that_others_may_look_into_is_not_used(own_zygotes: Zygotes) -> None:
    own_zygotes.pasture("start", "--name", "x")
    assert "served" in own_zygotes.why("-c", SOURCE)
    (own_zygotes.folder / "pasture").chmod(0o755)
    assert "no zygote is there" in reason(own_zygotes, "-c", SOURCE)


def test_a_stub_without_an_interpreter_beside_it_says_so(tmp_path: Path, zygotes: Zygotes) -> None:
    alone = tmp_path / "pasture-python"
    alone.write_bytes(STUB.read_bytes())
    alone.chmod(0o755)
    ended = zygotes.run("-c", SOURCE, program=alone)
    assert (ended.status, b"PASTURE_PYTHON" in ended.err) == (127, True)
    (tmp_path / "python").symlink_to("pasture-python")
    assert zygotes.run("-c", SOURCE, program=alone).status == 127
