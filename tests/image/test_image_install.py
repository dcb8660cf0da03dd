"""The environment's own image, and scripts that start out of it."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest
from images import Images, make_environment

from pasture.errors import ImageFailed
from pasture_image.start import installed

pytestmark = [pytest.mark.once, pytest.mark.integration]

SOURCE = "import sys\nprint('json' in sys.modules, *sys.argv)\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """An environment of its own with the packages of this one, and an image."""
    folder = tmp_path_factory.mktemp("environment")
    folder.chmod(0o755)
    make_environment(folder / "env")
    found = Images(folder)
    by_environment(found, "build", "-o", str(found.image), "--preload", "json")
    return found


def own_stub(environment: Images) -> Path:
    return environment.folder / "env" / "bin" / "pasture-python"


def by_environment(environment: Images, *words: str) -> str:
    python = own_stub(environment).with_name("python")
    done = subprocess.run(
        [python, "-m", "pasture", "image", *words],
        env=environment.environ,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def said_by(environment: Images, *words: object, **variables: str) -> tuple[str, str]:
    """Output of a program without any variable that names an image, and what the stub says."""
    environ = {**environment.environ, **variables, "PASTURE_IMAGE_VERBOSE": "1"}
    done = subprocess.run(
        [str(word) for word in words], env=environ, text=True, capture_output=True, check=True
    )
    return done.stdout, done.stderr


def test_a_script_starts_out_of_the_installed_image_and_comes_back(environment: Images) -> None:
    stub = own_stub(environment)
    script = stub.with_name("tool")
    before = f"#!{stub.parent}/python\n{SOURCE}".encode()
    script.write_bytes(before)
    script.chmod(0o751)
    for _ in range(2):  # again is harmless
        shown = by_environment(environment, "install", str(environment.image), "--script", "tool")
        assert f"{script} starts by pasture-python" in shown
        out, said = said_by(environment, script, "a")
        assert out == f"True {script} a\n"
        assert f"started from the image: {stub}.img" in said
    assert script.stat().st_mode & 0o777 == 0o751
    assert "is the image of this environment" in by_environment(environment, "show")
    for variables in ({"PASTURE_IMAGE": "0"},):
        out, said = said_by(environment, script, **variables)
        assert (out.split()[0], "started" in said) == ("False", False)
    run = (stub.with_name("python"), "-m", "pasture", "run", "--", "python", "-c", SOURCE)
    assert said_by(environment, *run)[0] == "True -c\n"
    installed.image_of(stub).chmod(0o666)
    assert "another user may write" in said_by(environment, script)[1]
    installed.image_of(stub).chmod(0o600)
    assert "has no image of its own now" in by_environment(environment, "uninstall")
    assert script.read_bytes() == before
    assert script.stat().st_mode & 0o777 == 0o751
    assert {path.name for path in stub.parent.glob("pasture-python*")} == {"pasture-python"}
    assert said_by(environment, script)[0] == f"False {script}\n"


# In the test's own process: files alone.


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "bin" / "pasture-python"
    path.parent.mkdir()
    path.write_bytes(b"")
    return path


def script_of(stub: Path, name: str = "tool", head: str = "#!{}/python\n") -> Path:
    path = stub.with_name(name)
    path.write_text(head.format(stub.parent) + SOURCE)
    return path


@pytest.mark.parametrize(
    "head",
    [
        "#!{}/python3.14\n",
        "#! {}/python -s\n",
        "#!/usr/bin/env python3\n",
        "#!{}/python\r\n",
        "#!/bin/sh\n'''exec' \"{}/python\" \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' {}/python3 \"$0\" \"$@\"\n' '''\n",
        '#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python\' "$0" "$@"\n'
        "' '''\n",
    ],
)
def test_heads_of_scripts_are_switched_and_come_back(stub: Path, head: str) -> None:
    script = script_of(stub, head=head)
    before = script.read_bytes()
    installed.switch(stub, [script])
    line = script.read_text().splitlines()[0]
    assert line in (f"#!{stub}", f"#!{stub} -s")
    assert script.read_text().endswith(SOURCE)
    assert installed.switch_back(stub, [script]) == []
    assert (script.read_bytes(), installed.scripts(stub)) == (before, [])


def test_a_path_with_spaces_or_too_long_for_the_kernel_goes_through_a_shell(tmp_path: Path) -> None:
    for name in ("with space", "x" * 150):
        stub = tmp_path / name / "pasture-python"
        stub.parent.mkdir()
        stub.write_text('#!/bin/sh\necho "$@"\n')
        stub.chmod(0o755)
        script = script_of(stub, head="#!/usr/bin/env python\n")
        script.chmod(0o755)
        installed.switch(stub, [script])
        done = subprocess.run([script, "a b"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{script} a b\n"
        compile(script.read_text(), "script", "exec")


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("#!/usr/bin/perl\n", "does not begin as a script"),
        ("#!/elsewhere/bin/python\n", "is for the interpreter in /elsewhere/bin"),
        ("", "does not begin as a script"),
    ],
)
def test_what_is_no_script_of_this_environment_is_refused(stub: Path, head: str, said: str) -> None:
    good, bad = script_of(stub), script_of(stub, "bad", head)
    before = good.read_bytes()
    with pytest.raises(ImageFailed, match=said):
        installed.switch(stub, [good, bad])
    assert (good.read_bytes(), installed.scripts(stub)) == (before, [])
    with pytest.raises(ImageFailed, match="there is no script"):
        installed.find_script(stub, "absent")


def test_a_script_that_was_installed_again_is_noticed_and_left_alone(stub: Path) -> None:
    script, other = script_of(stub), script_of(stub, "other")
    installed.switch(stub, [script, other])
    script.write_text(f"#!{stub.parent}/python\nprint('of a newer version')\n")
    other.unlink()
    assert {one.path: one.state for one in installed.scripts(stub)} == {
        script: "replaced",
        other: "gone",
    }
    newer = script.read_bytes()
    left = installed.switch_back(stub, [script, other])
    assert ([one.path for one in left], script.read_bytes()) == ([script], newer)
    installed.switch(stub, [script])
    assert installed.scripts(stub)[0].before == newer
    script.write_bytes(newer)
    installed.switch(stub, [script])
    assert installed.scripts(stub)[0].state == "switched"


@pytest.mark.parametrize("step", ["switch", "switch_back"])
@pytest.mark.parametrize("at", ["_record", "_replace"])
def test_an_interrupted_step_loses_nothing_and_can_be_repeated(
    stub: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: str
) -> None:
    script = script_of(stub)
    before = script.read_bytes()
    if step == "switch_back":
        installed.switch(stub, [script])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(installed, at, interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(installed, step)(stub, [script])
    assert script.read_bytes() == before or installed.scripts(stub)[0].before == before
    getattr(installed, step)(stub, [script])
    assert installed.remove(stub) == []
    assert (script.read_bytes(), installed.scripts(stub)) == (before, [])


def test_two_installs_at_once_record_all_scripts(stub: Path) -> None:
    names = [f"tool{n}" for n in range(6)]

    def install(name: str) -> None:
        with installed.locked(stub):
            installed.switch(stub, [script_of(stub, name)])

    threads = [threading.Thread(target=install, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.path.name for one in installed.scripts(stub)} == set(names)


def test_a_damaged_record_is_reported(stub: Path) -> None:
    for text in ("{", "[]", json.dumps({"a": 1})):
        Path(f"{stub}.scripts").write_text(text)
        with pytest.raises(ImageFailed, match="cannot be read"):
            installed.scripts(stub)
