# ruff: noqa: E501 - a row a line
"""Kinds of change after a build: what a module finds while it loads, plain and out of an image.

    .venv/bin/python tests/image/changes.py [WORD...]    # the table; most rows of STARTS need root

A row of FILES has the code of a module, and what changes the folder HERE; one of STARTS has how the
program is started; one of WALKS the same, for modules that read all variables, on which the image of the
others does not depend; one of REFUSED the kind that a build names. All rows of a table are in one
image, so each change is undone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from images import BIN, Images

Change = Callable[[Path], object]


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def flip(link: Path, to: Path | str) -> None:
    new = link.with_name("new")
    new.symlink_to(to)
    new.replace(link)


def same_size(path: Path) -> None:
    """Another content of the same size, at the same time."""
    before = path.stat()
    path.write_text(path.read_text().swapcase())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchanged(path: Path, to: Callable[[Path], object]) -> None:
    path.rename(path.with_name("before"))
    to(path)


def archive(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, "")


def metadata(version: int) -> str:
    return f"Metadata-Version: 2.1\nName: dist\nVersion: {version}\n"


C = "import ctypes; C = ctypes.CDLL(None)\n"
OPENSSL = "openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nMinProtocol={}\n"

FILES: dict[str, tuple[str, Change]] = {
    "edited": ("V = open(HERE + '/a').read()", lambda h: write(h / "a", "more")),
    "edited, of the same size": ("V = open(HERE + '/a').read()", lambda h: same_size(h / "a")),
    "removed": ("V = os.path.exists(HERE + '/a')", lambda h: (h / "a").unlink()),
    "written by another name": (
        "V = open(HERE + '/a').read()",
        lambda h: ((h / "x").hardlink_to(h / "a"), write(h / "x", "more")),
    ),
    "a listed folder that is gone": (
        "try: V = os.listdir(HERE + '/empty')\nexcept OSError: V = None",
        lambda h: (h / "empty").rmdir(),
    ),
    "a file in the place of a package of folders": (
        "from importlib.util import find_spec; V = bool(find_spec('parts'))",
        lambda h: ((h / "lib/parts").rmdir(), write(h / "lib/parts")),
    ),
    "a folder of the search path": (
        "try: import later as V\nexcept ImportError: V = None\nelse: V = V.MINE",
        lambda h: write(h / "no/later.py", "MINE = 1"),
    ),
    "made": ("V = os.path.exists(HERE + '/new')", lambda h: write(h / "new")),
    "made below": ("V = os.path.exists(HERE + '/n/e/w')", lambda h: write(h / "n/e/w")),
    "made, and opened to write": (
        "try: V = open(HERE + '/log', 'r+').read()\nexcept OSError: V = None",
        lambda h: write(h / "log"),
    ),
    "a longer one": ("V = os.stat(HERE + '/a').st_size", lambda h: write(h / "a", "longer")),
    "its time": ("V = os.stat(HERE + '/a').st_mtime", lambda h: os.utime(h / "a", (1, 1))),
    "the time in a listing": (
        "V = [e.stat().st_mtime for e in os.scandir(HERE + '/data')]",
        lambda h: os.utime(h / "data/one", (1, 1)),
    ),
    "its mode": ("V = os.stat(HERE + '/a').st_mode", lambda h: (h / "a").chmod(0o600)),
    "a folder's mode": ("V = os.stat(HERE + '/data').st_mode", lambda h: (h / "data").chmod(0o700)),
    "its owner": ("V = os.stat(HERE + '/a').st_uid", lambda h: os.chown(h / "a", 7, 7)),
    "whether it runs": ("V = os.access(HERE + '/a', os.X_OK)", lambda h: (h / "a").chmod(0o755)),
    "a name in a folder": ("V = os.listdir(HERE + '/data')", lambda h: write(h / "data/two")),
    "what a name in a folder is": (
        "V = [e.is_dir() for e in os.scandir(HERE + '/data')]",
        lambda h: exchanged_in(h / "data", Path.mkdir),
    ),
    "below a folder": ("V = sorted(os.walk(HERE + '/data'))", lambda h: write(h / "data/x/y")),
    "by a pattern": ("import glob; V = glob.glob(HERE + '/*.c')", lambda h: write(h / "x.c")),
    "where a link leads": ("V = os.readlink(HERE + '/link')", lambda h: flip(h / "link", "b")),
    "through a link": ("V = open(HERE + '/link').read()", lambda h: flip(h / "link", "b")),
    "through a link to a folder": (
        "V = os.listdir(HERE + '/to')",
        lambda h: (write(h / "other/two"), flip(h / "to", "other")),
    ),
    "a resolved path": ("V = os.path.realpath(HERE + '/link')", lambda h: flip(h / "link", "b")),
    "a link in its place": (
        "V = os.path.islink(HERE + '/a')",
        lambda h: exchanged(h / "a", lambda path: path.symlink_to("before")),
    ),
    "a link in the place of a folder": (
        "V = os.path.realpath(HERE + '/data/one')",
        lambda h: exchanged(h / "data", lambda path: path.symlink_to("before")),
    ),
    "a folder in its place": (
        "V = os.path.isdir(HERE + '/a')",
        lambda h: exchanged(h / "a", Path.mkdir),
    ),
    "a pipe": (
        "import stat\nV = os.path.exists(HERE + '/p') and stat.S_ISFIFO(os.stat(HERE + '/p')[0])",
        lambda h: os.mkfifo(h / "p"),
    ),
    "read in C": (
        f"{C}B = ctypes.create_string_buffer(9); F = C.open((HERE + '/a').encode(), 0)\n"
        "V = C.read(F, B, 8), B.value; C.close(F)",
        lambda h: write(h / "a", "more"),
    ),
    "read by a child": (
        "import subprocess; V = subprocess.check_output(['cat', HERE + '/a'], env={})",
        lambda h: write(h / "a", "more"),
    ),
    "mapped": (
        "import mmap\nwith open(HERE + '/a', 'rb') as F, mmap.mmap(F.fileno(), 0, prot=1) as M:\n"
        "    V = bytes(M)",
        lambda h: same_size(h / "a"),
    ),
    "a database": (
        "import sqlite3; D = sqlite3.connect(HERE + '/q.db')\n"
        "V = D.execute('pragma user_version').fetchall(); D.close()",
        lambda h: database(h / "q.db", 2),
    ),
    "an archive": (
        "import zipfile; V = zipfile.ZipFile(HERE + '/z.zip').namelist()",
        lambda h: archive(h / "z.zip", "two"),
    ),
    "a module": (
        "import plug.one as M; V = getattr(M, 'X', 0)",
        lambda h: write(h / "lib/plug/one.py", "X = 1"),
    ),
    "a package before a module": (
        "import plug.two as M; V = getattr(M, 'X', 0)",
        lambda h: write(h / "lib/plug/two/__init__.py", "X = 1"),
    ),
    "a module that was not there": (
        "try: from plug import fast as V\nexcept ImportError: V = None",
        lambda h: write(h / "lib/plug/fast.py"),
    ),
    "a module that was looked for": (
        "from importlib.util import find_spec; V = bool(find_spec('found'))",
        lambda h: (h / "lib/found.py").unlink(),
    ),
    "plug-ins of a package": (
        "import pkgutil, plug; V = [m.name for m in pkgutil.iter_modules(plug.__path__)]",
        lambda h: write(h / "lib/plug/three.py"),
    ),
    "a file of a package": (
        "from importlib.resources import files\nV = [p.name for p in files('plug').iterdir()]",
        lambda h: write(h / "lib/plug/data.txt"),
    ),
    "an entry point": (
        "from importlib.metadata import entry_points; V = len(entry_points(group='looks'))",
        lambda h: write(h / "lib/new-1.dist-info/entry_points.txt", "[looks]\na = json\n"),
    ),
    "an installed version": (
        "from importlib.metadata import version; V = version('dist')",
        lambda h: write(h / "lib/dist-1.dist-info/METADATA", metadata(2)),
    ),
    "another installed version": (
        "from importlib.metadata import version; V = version('dist')",
        lambda h: (
            shutil.rmtree(h / "lib/dist-1.dist-info"),
            write(h / "lib/dist-2.dist-info/METADATA", metadata(2)),
        ),
    ),
    "a part of a namespace": (
        "import space; V = len(space.__path__)",
        lambda h: write(h / "more/space/two.py"),
    ),
    "a start file": (
        "import sys; V = hasattr(sys, 'custom')",
        lambda h: write(h / "lib/sitecustomize.py", "import sys; sys.custom = 1"),
    ),
    "a setting above": (
        "from pathlib import Path\nV = [p for p in Path(HERE, 'x').parents if (p / '.set').exists()]",
        lambda h: write(h / ".set"),
    ),
    "a configuration of OpenSSL": (
        "import ssl; V = ssl.create_default_context().minimum_version.name",
        lambda h: write(h / "openssl.cnf", OPENSSL.format("TLSv1.3")),
    ),
    "a translation": (
        "import gettext; V = gettext.find('app', HERE + '/locale', ['de'])",
        lambda h: write(h / "locale/de/LC_MESSAGES/app.mo"),
    ),
    "shared memory": (
        "V = os.path.exists('/dev/shm/' + HERE.replace('/', '-'))",
        lambda h: (Path("/dev/shm") / str(h).replace("/", "-")).touch(),
    ),
    "a program": (
        "import shutil; V = shutil.which('tool', path=HERE + '/bin')",
        lambda h: (write(h / "bin/tool"), (h / "bin/tool").chmod(0o755)),
    ),
}  # fmt: skip


def copied(path: Path) -> None:
    subprocess.run(["cp", "-p", path, path.with_name("copy")], check=True)
    path.with_name("copy").replace(path)


SAME: dict[str, Change] = {
    "touched": lambda h: (h / "lib/plug/one.py").touch(),
    "written again": lambda h: write(h / "lib/plug/one.py"),
    "another name": lambda h: (h / "below/again").hardlink_to(h / "lib/plug/one.py"),
    "a copy": lambda h: copied(h / "a"),
    "a log": lambda h: write(h / "lib/app.log"),
    "a folder without modules": lambda h: write(h / "lib/os/text"),
    "a cache": lambda h: write(h / "lib/plug/__pycache__/x"),
}
"""What makes no difference."""


def exchanged_in(folder: Path, to: Callable[[Path], object]) -> None:
    (folder / "one").unlink()
    to(folder / "one")


def database(path: Path, version: int) -> None:
    import sqlite3

    with sqlite3.connect(path) as made:
        made.execute(f"pragma user_version = {version}")
    made.close()


def shell(command: str) -> tuple[str, ...]:
    return ("sh", "-c", f'{command}; exec "$@"', "sh")


NOT_ROOTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a variable": ("V = os.environ.get('FOO')", {"env": {"FOO": "1"}}),
    "whether a variable is set": ("V = 'FOO' in os.environ", {"env": {"FOO": "1"}}),
    "a variable in C": (
        f"{C}C.getenv.restype = ctypes.c_char_p; V = C.getenv(b'FOO')",
        {"env": {"FOO": "1"}},
    ),
    "a variable as bytes": ("V = os.environb.get(b'FOO')", {"env": {"FOO": "1"}}),
    "a variable in a text": ("V = os.path.expandvars('$FOO')", {"env": {"FOO": "1"}}),
    "a variable of a shell": ("V = os.environ.get('SHLVL')", {"env": {"SHLVL": "7"}}),
    "the home": ("V = os.path.expanduser('~')", {"env": {"HOME": "/tmp"}}),
    "the user's packages": ("import site; V = site.getuserbase()", {"env": {"HOME": "/tmp"}}),
    "the terminal's size": (
        "import shutil; V = shutil.get_terminal_size()",
        {"env": {"COLUMNS": "33"}},
    ),
    "the temporary folder": ("import tempfile; V = tempfile.gettempdir()", {"env": {"TMPDIR": "/"}}),
    "the path": ("V = os.environ['PATH']", {"env": {"PATH": "/bin"}}),
    "the time zone": ("import time; V = time.localtime(0)[3]", {"env": {"TZ": "Asia/Tokyo"}}),
    "the name of the time zone": ("import time; V = time.tzname", {"env": {"TZ": "Asia/Tokyo"}}),
    "the locale": ("import locale; V = locale.getlocale()", {"env": {"LC_ALL": "C"}}),
    "the language": ("V = os.environ.get('LANG')", {"env": {"LANG": "de_DE.UTF-8"}}),
    "warnings": ("import sys; V = [*sys.warnoptions]", {"env": {"PYTHONWARNINGS": "ignore"}}),
    "processors by a variable": ("V = os.cpu_count()", {"env": {"PYTHON_CPU_COUNT": "9"}}),
    "an option": ("V = __debug__", {"options": ["-O"]}),
    "an option for warnings": ("import sys; V = [*sys.warnoptions]", {"options": ["-Werror"]}),
    "an argument": ("import sys; V = 'zz' in sys.argv", {"args": ["zz"]}),
    "what a relative path leads to": ("V = os.path.exists('x.ini')", {"cwd": "here"}),
    "a setting above the folder": (
        "from pathlib import Path\n"
        "V = [p for p in (Path.cwd(), *Path.cwd().parents) if (p / 'x.ini').exists()] != []",
        {"cwd": "here/below"},
    ),
    "the working directory": ("V = os.getcwd()", {"cwd": "here"}),
    "the user": ("V = os.getuid()", {"prefix": ("setpriv", "--reuid=1")}),
    "the group": ("V = os.getgid()", {"prefix": ("setpriv", "--regid=1", "--keep-groups")}),
    "the groups": ("V = os.getgroups()", {"prefix": ("setpriv", "--groups=7")}),
    "whether it may be written": ("V = os.access(HERE + '/ro', os.W_OK)", {"prefix": NOT_ROOTS}),
    "a limit": (
        "import resource; V = resource.getrlimit(resource.RLIMIT_NOFILE)[0]",
        {"prefix": ("prlimit", "--nofile=1500")},
    ),
    "a limit by its name": ("V = os.sysconf('SC_OPEN_MAX')", {"prefix": shell("ulimit -n 1500")}),
    "the processors": ("V = len(os.sched_getaffinity(0))", {"prefix": ("taskset", "1")}),
    "an ignored signal": (
        "import signal; V = signal.getsignal(signal.SIGINT) == signal.SIG_IGN",
        {"prefix": shell("trap '' INT")},
    ),
    "a blocked signal": (
        "import signal; V = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        {"prefix": ("env", "--block-signal=USR1")},
    ),
    "the kernel": ("import platform; V = platform.release()", {"prefix": ("setarch", "--uname-2.6")}),
    "the machine": ("import platform; V = platform.machine()", {"prefix": ("setarch", "linux32")}),
    "the host": (
        "import socket; V = socket.gethostname()",
        {"prefix": ("unshare", "-u", *shell("hostname other"))},
    ),
    "a file of the kernel's": (
        "V = open('/proc/sys/kernel/hostname').read()",
        {"prefix": ("unshare", "-u", *shell("hostname other"))},
    ),
    "what the kernel can mount": (
        "V = open('/proc/filesystems').read(), open('/proc/self/cgroup').read()",
        {"prefix": ("unshare", "-m", *shell("mount --bind /etc/passwd /proc/filesystems"))},
    ),
    "the zone of the machine": (
        "import time; V = time.strftime('%Z', time.localtime(0))",
        {"prefix": ("unshare", "-m", *shell(
            "mount --bind /usr/share/zoneinfo/Asia/Tokyo /etc/localtime"))},
    ),
    "a user by name": (
        "import pwd; V = 'zz' in [one.pw_name for one in pwd.getpwall()]",
        {"prefix": ("unshare", "-m", *shell("mount --bind {here}/passwd /etc/passwd"))},
    ),
    "a device": (
        "V = os.path.exists('/dev/zz')",
        {"prefix": ("unshare", "-m", *shell(
            "mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9;"
            "touch /dev/zz"))},
    ),
    "a file of a subsystem": (
        "V = os.path.exists('/sys/class/zz')",
        {"prefix": ("unshare", "-m", *shell("mount -t tmpfs none /sys/class; mkdir /sys/class/zz"))},
    ),
    "a read-only file system": (
        "V = os.access(HERE + '/data', os.W_OK)",
        {"prefix": ("unshare", "-m", *shell(
            "mount --bind {here} {here}; mount -o remount,ro,bind {here}"))},
    ),
    "IPv6": (
        "import socket; S = socket.socket(socket.AF_INET6)\n"
        "try: S.bind(('::1', 0)); V = 1\nexcept OSError: V = 0\nS.close()",
        {"prefix": ("unshare", "-n")},
    ),
    "what standard input is": ("V = os.fstat(0).st_mode >> 12", {"input": b"text"}),
    "what a name of standard input is": (
        "V = os.stat('/dev/stdin').st_mode >> 12",
        {"input": b"text"},
    ),
}  # fmt: skip

WALKS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (code, {"env": {"FOO": "1"}})
    for name, code in {
        "variables by their beginning": "V = [v for k, v in os.environ.items() if k[:3] == 'FOO']",
        "variables by a pattern": "import re; V = [v for k, v in os.environ.items() if re.match('FO', k)]",
        "a copy": "V = dict(os.environ).get('FOO')",
        "a child's": "import subprocess; V = subprocess.run(['printenv', 'FOO'], stdout=-1).stdout",
        "of the kernel": "V = 'FOO=1' in open('/proc/self/environ').read().split('\\0')",
    }.items()
}

SOCKET = "import socket; S = socket.socket(socket.AF_{}, socket.SOCK_{})\n"
REFUSED: dict[str, tuple[str, str]] = {
    "the path of the folder": ("folder", "import pathlib; V = pathlib.Path.cwd()"),
    "the same in C": (
        "folder", f"{C}B = ctypes.create_string_buffer(999); C.getcwd(B, 999); V = B.value"
    ),
    "names in the folder": ("folder", "V = os.listdir('.')"),
    "the folder of a program": ("folder", "import subprocess; subprocess.run(['/bin/pwd', '-P'], stdout=-1)"),
    "the search path": ("folder", "import sys; V = tuple(sys.path)"),
    "interfaces": ("network", "import socket; V = socket.if_nameindex()"),
    "routes": ("network", SOCKET.format("NETLINK", "RAW") + "S.close()"),
    "a connection": ("network", SOCKET.format("INET", "DGRAM") + "S.connect(('127.0.0.1', 9)); S.close()"),
    "a port": ("network", SOCKET.format("INET", "STREAM") + "S.bind(('127.0.0.1', 0)); S.close()"),
    "free space": ("filesystem", "V = os.statvfs('/').f_bavail"),
    "free space of what is open": ("filesystem", "F = os.open('/', 0); V = os.fstatvfs(F); os.close(F)"),
    "an attribute": ("filesystem", "V = os.listxattr(HERE)"),
    "memory": ("memory", "V = os.sysconf('SC_AVPHYS_PAGES')"),
    "load": ("memory", "V = os.getloadavg()"),
    "a file of the process": ("kernel", "V = open('/proc/self/limits').read()"),
    "all processes": ("kernel", "V = os.listdir('/proc')"),
    "a namespace": ("kernel", "V = os.readlink('/proc/self/ns/net')"),
    "umask": ("process", "V = os.umask(0); os.umask(V)"),
    "priority": ("process", "V = os.getpriority(0, 0)"),
    "scheduling": ("process", "V = os.sched_getparam(0)"),
    "session": ("process", "V = os.getsid(0)"),
    "group of processes": ("process", "V = os.getpgrp()"),
    "a timer": ("process", "import signal; V = signal.getitimer(0)"),
    "another process": ("process", "try: V = os.kill(1, 0)\nexcept OSError: V = 0"),
    "personality": ("process", f"{C}V = C.personality(-1)"),
    "capabilities": ("process", f"{C}V = C.capget((ctypes.c_uint * 2)(0x20080522, 0), 0)"),
    "privileges": ("process", f"{C}V = C.prctl(39, 0, 0, 0, 0)"),
    "shared memory of System V": ("process", f"{C}V = C.shmget(99, 0, 0)"),
    "standard input": ("process", "import sys; V = sys.stdin.read()"),
    "what standard output is": ("process", "V = os.fstat(1).st_mode"),
    "where standard output is": ("process", "try: V = os.lseek(1, 0, 1)\nexcept OSError: V = None"),
    "what it prints": ("output", "print('text')"),
    "a warning": ("output", "import warnings; warnings.warn('old', DeprecationWarning, stacklevel=2)"),
    "a limit that it sets": ("state", "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"),
    "a directory that it goes to": ("state", "os.chdir('/')"),
    "a folder that it makes": ("made", "import tempfile; V = tempfile.mkdtemp()"),
}  # fmt: skip


def filled(here: Path) -> None:
    """What FILES and STARTS find."""
    for name, text in {
        "a": "text", "b": "other", "data/one": "1", "x.ini": "", "below/y": "", "ro": "",
        "passwd": "zz:x:7:7::/:/bin/sh\n", "openssl.cnf": OPENSSL.format("TLSv1.2"),
        "lib/plug/__init__.py": "", "lib/plug/one.py": "", "lib/plug/two.py": "",
        "lib/found.py": "", "lib/space/one.py": "", "lib/dist-1.dist-info/METADATA": metadata(1),
        "more/text": "", "bin/text": "",
    }.items():  # fmt: skip
        write(here / name, text)
    (here / "empty").mkdir()
    (here / "lib/parts").mkdir()
    (here / "link").symlink_to("a")
    (here / "to").symlink_to("data")
    (here / "ro").chmod(0o444)
    archive(here / "z.zip", "one")
    database(here / "q.db", 1)


class Table:
    """The image of a table: a module of each row, and what each has found."""

    def __init__(self, rows: Mapping[str, tuple[str, Any]], folder: Path, *words: str) -> None:
        self.rows = rows
        self.images = Images(folder)
        self.here = folder / "here"
        filled(self.here)
        for at, code in enumerate(self._codes()):
            write(self.here / f"lib/m{at}.py", f"import os; HERE = {str(self.here)!r}\n{code}\n")
        self.images.environ |= {
            "PYTHONPATH": f"{self.here}/lib:{self.here}/more:{self.here}/no",
            "OPENSSL_CONF": f"{self.here}/openssl.cnf",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        subprocess.run(["cp", "-a", self.here, folder / "kept"], check=True)
        names = ",".join(f"m{at}" for at in range(len(rows)))
        self.done = self.images.build("--preload", names, *words)
        assert self.done.returncode == 0, self.done.stderr
        self.images.image.chmod(0o644)

    def _codes(self) -> list[str]:
        return [row[1] if self.rows is REFUSED else row[0] for row in self.rows.values()]

    def words(self, name: str) -> tuple[str, ...]:
        at = [*self.rows].index(name)
        return ("-c", f"import m{at}; print(repr(m{at}.V))")

    def undo(self) -> None:
        (Path("/dev/shm") / str(self.here).replace("/", "-")).unlink(missing_ok=True)
        shutil.rmtree(self.here)
        subprocess.run(["cp", "-a", self.here.with_name("kept"), self.here], check=True)

    def run(self, name: str, program: str, how: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """What a program prints that is started in some way."""
        prefix = [word.replace("{here}", str(self.here)) for word in how.get("prefix", ())]
        words = [*how.get("options", ()), *self.words(name), *how.get("args", ())]
        given = {"input": how["input"]} if "input" in how else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(
            [*prefix, BIN / program, *words],
            env={**self.images.variables, "PASTURE_IMAGE_VERBOSE": "1", **how.get("env", {})},
            cwd=self.here.parent / how["cwd"] if "cwd" in how else "/",
            capture_output=True, check=False, **given,
        )  # fmt: skip
        return done.stdout, done.stderr

    def compared(self, name: str) -> tuple[bytes, bytes, bytes, bytes]:
        """By python before a change and after it, then out of the image, and why not out of it."""
        row = self.rows[name][1]
        how = row if isinstance(row, dict) else {}
        before, _ = self.run(name, "python", {})
        served, why = self.run(name, "pasture-python", {})
        assert served == before and b"started from the image" in why, why.decode()
        try:
            if callable(row):
                row(self.here)
            after, _ = self.run(name, "python", how)
            image, why = self.run(name, "pasture-python", how)
        finally:
            if callable(row):
                self.undo()
        return before, after, image, why


def main() -> None:
    for table in (FILES, STARTS, WALKS):
        rows: Mapping[str, tuple[str, Any]] = table
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            compared = Table(rows, Path(folder))
            for name in rows:
                if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
                    before, after, image, why = compared.compared(name)
                    said = (
                        "SILENT" if image != after else "same" if before != after else "unchanged"
                    )
                    print(f"{said:9} | {name} | {why.decode().strip().rpartition(': ')[2]}")


if __name__ == "__main__":
    main()
