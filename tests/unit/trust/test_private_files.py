"""What pasture writes is its user's alone, and no other user can say where it goes."""

import os
import resource
import signal
import stat
from pathlib import Path

import pytest

from pasture.errors import UsageError
from pasture.trust import private_files

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
OTHER_USER = 65534


def test_a_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_files.write(tmp_path / "report", "text ü")
        private_files.make_folder(tmp_path / "a" / "b")
        private_files.create(tmp_path / "log").close()
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"report": 0o600, "a": 0o700, "b": 0o700, "log": 0o600}
    assert (tmp_path / "report").read_bytes() == "text ü".encode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's link")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_no_folder_is_made_behind_a_link_of_another_user(tmp_path: Path, at: int) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    parts = ["a", "b", "c"]
    folder = tmp_path.joinpath(*parts)
    link = tmp_path.joinpath(*parts[: at + 1])
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(theirs)
    os.chown(link, 65534, 65534, follow_symlinks=False)

    with pytest.raises(PermissionError, match="a symbolic link of user 65534"):
        private_files.make_folder(folder)

    assert list(theirs.iterdir()) == []
    os.chown(link, 0, 0, follow_symlinks=False)
    private_files.make_folder(folder)
    assert folder.is_dir()


def test_a_file_in_a_folders_way_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("file", "file/below"):
        with pytest.raises(NotADirectoryError):
            private_files.make_folder(tmp_path / name)
    assert (tmp_path / "file").read_text() == "x"


def test_a_file_takes_the_place_of_an_earlier_one_and_of_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_text("old")
    file.chmod(0o666)

    private_files.write(file, b"new")

    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            private_files.write(file, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_is_no_plain_file_is_neither_followed_nor_replaced(tmp_path: Path, kind: str) -> None:
    victim, place = tmp_path / "victim", tmp_path / "place"
    victim.write_text("precious")
    if kind == "link":
        place.symlink_to(victim)
    else:
        os.mkfifo(place)

    for write in (lambda: private_files.write(place, "x"), lambda: private_files.create(place)):
        with pytest.raises(OSError, match="not a plain file"):
            write()

    assert victim.read_text() == "precious"
    assert place.is_symlink() or stat.S_ISFIFO(place.stat().st_mode)


@as_root
def test_a_file_of_another_user_is_not_replaced_even_by_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    file = tmp_path / "report"
    file.write_text("his")
    os.chown(file, OTHER_USER, OTHER_USER)

    with pytest.raises(OSError, match="belongs to user 65534"):
        private_files.write(file, "mine")

    assert file.read_text() == "his"


@pytest.mark.parametrize(("mode", "is_safe"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_all_may_write_to_is_safe_only_if_it_is_sticky(
    tmp_path: Path, mode: int, is_safe: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)

    if is_safe:
        private_files.write(folder / "report", "x")
    else:
        with pytest.raises(OSError, match="every user may write"):
            private_files.write(folder / "report", "x")
    assert (folder / "report").exists() == is_safe


@as_root
def test_a_folder_of_another_user_or_of_a_group_is_refused(tmp_path: Path) -> None:
    his, of_group = tmp_path / "his", tmp_path / "group"
    his.mkdir()
    os.chown(his, OTHER_USER, OTHER_USER)
    of_group.mkdir()
    os.chown(of_group, 0, OTHER_USER)
    of_group.chmod(0o775)

    with pytest.raises(OSError, match="folder belongs to user 65534"):
        private_files.write(his / "report", "x")
    with pytest.raises(OSError, match="group 65534 may write"):
        private_files.write(of_group / "report", "x")


@as_root
def test_who_calls_sudo_may_have_reports_in_a_folder_of_his_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, OTHER_USER, OTHER_USER)
    tmp_path.chmod(0o775)
    monkeypatch.setenv("SUDO_UID", str(OTHER_USER))
    with pytest.raises(OSError, match="group 65534 may write"):
        private_files.write(tmp_path / "report", "x")

    monkeypatch.setenv("SUDO_GID", str(OTHER_USER))
    private_files.write(tmp_path / "report", "x")

    assert (tmp_path / "report").read_text() == "x"


@as_root
def test_a_link_of_another_user_on_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, owner in (("his", OTHER_USER), ("own", 0)):
        (tmp_path / name).symlink_to("mine")
        os.chown(tmp_path / name, owner, owner, follow_symlinks=False)

    private_files.write(tmp_path / "own" / "report", "x")
    with pytest.raises(OSError, match="symbolic link of user 65534"):
        private_files.write(tmp_path / "his" / "other", "x")

    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["report"]


def test_links_in_a_ring_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(OSError):
        private_files.write(tmp_path / "a" / "report", "x")


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), private_files.replacing(tmp_path / "report") as file:
        file.write(b"half")
        raise RuntimeError

    assert list(tmp_path.iterdir()) == []


def test_no_place_for_temporary_files_is_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(prefix: str) -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)

    with (
        pytest.raises(UsageError, match="no temporary folder") as caught,
        private_files.temporary_folder("x"),
    ):
        pass
    assert "TMPDIR" in caught.value.hint


class _FileSystem:
    """As os.statvfs() describes one; `f_blocks` is 0 where it counts nothing."""

    f_frsize = 4096

    def __init__(self, f_blocks: int, f_bavail: int) -> None:
        self.f_blocks, self.f_bavail = f_blocks, f_bavail


def test_a_place_for_temporary_files_that_is_nearly_full_is_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.statvfs", lambda path: _FileSystem(1000, 3))

    with (
        pytest.raises(UsageError, match="no more than 12 KiB") as caught,
        private_files.temporary_folder("x"),
    ):
        pass
    assert "TMPDIR" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_counts_nothing_is_taken_to_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.statvfs", lambda path: _FileSystem(0, 0))

    with private_files.temporary_folder("x") as folder:
        assert folder.is_dir()


def test_temporary_files_that_outgrow_their_room_are_an_error_with_a_hint() -> None:
    with (
        pytest.raises(UsageError, match="is full") as caught,
        private_files.temporary_folder("x"),
    ):
        Path("/dev/full").write_text("more than there is room for")
    assert "TMPDIR" in caught.value.hint


def test_other_errors_in_a_temporary_folder_are_left_as_they_are() -> None:
    with pytest.raises(FileNotFoundError), private_files.temporary_folder("x") as folder:
        (folder / "missing").read_text()


def test_no_place_for_a_temporary_file_is_an_error_with_the_hint_of_its_caller(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="no temporary file can be made") as caught:
        private_files.require_temporary_file(str(tmp_path / "missing"), hint="do this")
    assert caught.value.hint == "do this"
    private_files.require_temporary_file(str(tmp_path), hint="")
    assert list(tmp_path.iterdir()) == []
