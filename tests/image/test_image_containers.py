"""Programs in containers out of one file: each has another root, and all share the file's pages."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from images import BIN, SAID, STUB, Images

from pasture.proc.maps import read_smaps
from pasture.proc.tree import children

pytestmark = [pytest.mark.once, pytest.mark.integration]

EXAMPLES = Path(__file__).parents[2] / "examples" / "containers"
CONTAINERS = 3
UNSHARE = ("unshare", "-m", "-p", "-i", "-u", "-n", "--fork", "--kill-child", "sh", "-ec")
ROOT = """\
mount -t tmpfs none "$0"; cd "$0"; mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t proc proc root/proc; mount --bind /dev root/dev
"""
READ_ONLY = "mount -o remount,ro,bind root 2>/dev/null || mount -o remount,ro root\n"
ENTER = 'exec chroot root "$@"\n'
SOURCE = (
    "import gc, os, sys, changing, json\n"
    "print(os.getpid(), os.stat(changing.__file__).st_dev, changing.ANSWER(), flush=True)\n"
    "input(); gc.collect(); print(json.dumps(sorted(sys.argv)), flush=True); input()\n"
)


def require_containers(folder: Path) -> None:
    command = [*UNSHARE, f"{ROOT}true", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces with an overlay here")


@contextmanager
def container(
    images: Images,
    folder: Path,
    program: Path,
    script: str = "",
    words: Sequence[str] = ("-c", SOURCE),
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in one."""
    folder.mkdir()
    command = [*UNSHARE, ROOT + script + ENTER, folder, program, *words]
    words = [str(word) for word in command]
    environ = {**images.variables, **SAID}
    with subprocess.Popen(words, env=environ, stdin=-1, stdout=-1, stderr=-1) as process:
        try:
            yield process
        finally:
            process.kill()


def bound(folder: Path) -> str:
    """What the container writes there is seen outside."""
    return f"mount --bind {folder} root{folder}\n"


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def test_containers_with_roots_of_their_own_share_one_file(images: Images, tmp_path: Path) -> None:
    require_containers(tmp_path)
    devices = {str(images.lib.stat().st_dev)}
    with ExitStack() as stack:
        running = [
            stack.enter_context(container(images, tmp_path / f"{n}", STUB))
            for n in range(CONTAINERS)
        ]
        for process in running:
            assert process.stderr is not None
            assert b": started from the image: " in process.stderr.readline()
            pid, device, answer = line(process).split()
            assert (pid, answer) == ("1", "1")
            devices.add(device)
            go_on(process)
            assert line(process) == '["-c"]\n'
        for process in running:
            assert shares_image(children(process.pid)[0], images.image)
    assert len(devices) == 1 + CONTAINERS, "each has a device of its own"


def shares_image(pid: int, image: Path) -> bool:
    """Whether a process in a container has pages of an image that others have as well."""
    return any(f["Shared_Clean"] for one, f in read_smaps(pid) if one.path.endswith(str(image)))


SERVED, NOT_SERVED = b"started from the image", b"belongs to another user"


@pytest.mark.parametrize(
    ("script", "how"),
    [
        (READ_ONLY, SERVED),
        ("mount --bind /dev/null root/proc/1/mem\n", SERVED),
        ("mount -t tmpfs none root/sys; mount --bind root/sys root/proc/sys\n", SERVED),
        (f'{READ_ONLY}exec unshare -U -r chroot root "$@"\n', SERVED),
        # All who are not mapped look like one user there.
        ('exec unshare -U sh -c \'cd root; exec "$@"\' - "$@"\n', NOT_SERVED),
    ],
    ids=[
        *("read-only root", "without /proc/self/mem", "without /proc/sys", "user namespace"),
        "user namespace without the file's owner",
    ],
)
def test_a_restricted_container_starts_out_of_a_file_of_its_own_user(
    images: Images, tmp_path: Path, script: str, how: bytes
) -> None:
    require_containers(tmp_path)
    images.image.chmod(0o644)
    try:
        with container(images, tmp_path / "c", STUB, script) as process:
            assert line(process).split()[0] == "1"
            _, said = process.communicate(b"\n\n")
    finally:
        images.image.chmod(0o600)
    assert (process.returncode, how in said) == (0, True), said


def test_the_examples_make_one_image_a_node_and_first_processes_are_served(
    images: Images, tmp_path: Path
) -> None:
    """As the init container and the unit have it, three at once, each in a container."""
    require_containers(tmp_path)
    example = (EXAMPLES / "node-image.yaml").read_text()
    found = re.search(r'command: (\["sh", "-c", .*\])', example)
    assert found is not None
    words: list[str] = json.loads(found[1])
    unit = re.search(
        r"ExecStart=-/srv/meadow/bin/(.*)", (EXAMPLES / "meadow-image.service").read_text()
    )
    assert unit is not None and unit[1] in words[2].replace("/images", "/var/cache")
    folder = tmp_path / "node"
    folder.mkdir()
    words[2] = words[2].replace("/images", str(folder)).replace("meadow.wsgi", "json")
    script = f"export PATH={BIN}:$PATH PASTURE_IMAGE={folder}/meadow/\n{bound(folder)}"
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                container(images, tmp_path / f"c{n}", Path(f"/bin/{words[0]}"), script, words[1:])
            )
            for n in range(CONTAINERS)
        ]
        said = [process.communicate()[0] for process in running]
    assert sorted(b"fits" in one for one in said) == [False, True, True], said
    assert len(list((folder / "meadow").glob("*.img"))) == 1
    with container(
        images, tmp_path / "first", STUB, script, ("-c", "import os; print(os.getpid())")
    ) as process:
        out, err = process.communicate()
    assert (out, b"started from the image" in err) == (b"1\n", True), err


NOEXEC = """\
mount -t tmpfs -o noexec none "$0"; cp "$1" "$0/app.img"; chmod 600 "$0/app.img"; shift
PASTURE_IMAGE="$0/app.img" exec "$@"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", b"started from the image"),
        (
            "import mmap; kept = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE, 7); kept[0] = 195\n",
            b"nothing is run from (noexec)",
        ),
        ("import mmap; empty = mmap.mmap(-1, 1 << 20, 34, 7)\n", b"started from the image"),
    ],
)
def test_an_image_on_a_file_system_without_execution_is_used_if_it_holds_no_code(
    own_images: Images, text: str, said: bytes
) -> None:
    folder = own_images.folder / "noexec"
    folder.mkdir()
    require_containers(folder)
    own_images.module("writes_code", text)
    own_images.built("--preload", "writes_code")
    words = (*UNSHARE, NOEXEC, folder, own_images.image, STUB, "-c", "print(1)")
    ended = own_images.run(*map(str, words), program=Path("/usr/bin/env"), environ=SAID)
    assert (ended.out, said in ended.err) == (b"1\n", True), ended
