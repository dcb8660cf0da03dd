# ruff: noqa: E501 - a row a line
"""Kinds of change after a build: what a module finds while it loads, plain and out of an image.

A row of FILES has the code of a module, and the command that changes its folder, HERE; one of STARTS
has how the program is started; one of WALKS the same, for modules that read all variables, on which the
image of the others does not depend; one of REFUSED the kind that a build names. Most rows of STARTS need
root. All rows of a table are in one image, so each change is undone.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from images import BIN, SAID, Images

BEGINS = "import os; HERE = '{0}'; A, DATA = '{0}/a', '{0}/data'; MINE = f'{0}/{{__name__}}'\n"
C = "import ctypes; C = ctypes.CDLL(None)\n"
FIND = "from importlib.util import find_spec; V = bool(find_spec('{}'))"
GET = "import {0} as M; V = getattr(M, 'V', 0)"
READ, MORE = "V = open(A).read()", "echo more > a"
VERSION = "from importlib.metadata import version; V = version('dist')"
OPENSSL = "openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nMinProtocol={}\n"
SAME_SIZE = "printf '{1}' > {0}; touch -r ../kept/{0} {0}"
MAPPED = f"""{sys.executable} -c "
import mmap
with open('{{0}}', 'r+b') as file, mmap.mmap(file.fileno(), 0) as written: written[:] = b'{{1}}'"
"""

FILES = {
    "edited": (READ, MORE),
    "edited, of the same size": (READ, SAME_SIZE.format("a", "TEXT")),
    "removed": ("V = os.path.exists(A)", "rm a"),
    "written by another name": (READ, "ln a x; echo more > x"),
    "a listed folder that is gone": (
        "try: V = os.listdir(HERE + '/empty')\nexcept OSError: V = None",
        "rmdir empty",
    ),
    "a file in place of a namespace": (FIND.format("parts"), "rmdir lib/parts; touch lib/parts"),
    "a folder of the search path": (
        "try: import later as V\nexcept ImportError: V = None\nelse: V = V.MINE",
        "mkdir no; echo MINE = 1 > no/later.py",
    ),
    "made": ("V = os.path.exists(HERE + '/new')", "touch new"),
    "made below": ("V = os.path.exists(HERE + '/n/e/w')", "mkdir -p n/e/w"),
    "made, and opened to write": (
        "try: V = open(HERE + '/log', 'r+').read()\nexcept OSError: V = None",
        "touch log",
    ),
    "the mode of a folder that is made": (
        "os.makedirs(DATA, exist_ok=True); V = os.stat(DATA).st_mode",
        "chmod 700 data",
    ),
    "the folder of a log": (
        "try: F = open(HERE + '/logs/log', 'a')\nexcept OSError: V = 0\nelse: V = F.close()",
        "mkdir logs",
    ),
    "a lock": (
        "try: F = os.open(HERE + '/lock', os.O_CREAT | os.O_EXCL)\nexcept OSError: V = 0\n"
        "else: V = 1; os.close(F); os.unlink(HERE + '/lock')",
        "touch lock",
    ),
    "a longer one": ("V = os.stat(A).st_size", "echo longer > a"),
    "its time": ("V = os.stat(A).st_mtime", "touch -d @1 a"),
    "the time in a listing": (
        "V = [e.stat().st_mtime for e in os.scandir(DATA)]",
        "touch -d @1 data/one",
    ),
    "its mode": ("V = os.stat(A).st_mode", "chmod 600 a"),
    "a folder's mode": ("V = os.stat(DATA).st_mode", "chmod 700 data"),
    "its owner": ("V = os.stat(A).st_uid", "chown 7:7 a"),
    "whether it runs": ("V = os.access(A, os.X_OK)", "chmod 755 a"),
    "a name in a folder": ("V = os.listdir(DATA)", "touch data/two"),
    "what a name in a folder is": (
        "V = [e.is_dir() for e in os.scandir(DATA)]",
        "rm data/one; mkdir data/one",
    ),
    "below a folder": ("V = sorted(os.walk(DATA))", "mkdir data/x; touch data/x/y"),
    "by a pattern": ("import glob; V = glob.glob(HERE + '/releases/*.c')", "touch releases/x.c"),
    "where a link leads": ("V = os.readlink(HERE + '/link')", "ln -sfn b link"),
    "through a link": ("V = open(HERE + '/link').read()", "ln -sfn b link"),
    "through a link to a folder": ("V = os.listdir(HERE + '/to')", "ln -sfn releases to"),
    "a resolved path": ("V = os.path.realpath(HERE + '/link')", "ln -sfn b link"),
    "a link in its place": ("V = os.path.islink(A)", "mv a before; ln -s before a"),
    "a link in the place of a folder": (
        "V = os.path.realpath(DATA + '/one')",
        "mv data before; ln -s before data",
    ),
    "a folder in its place": ("V = os.path.isdir(A)", "rm a; mkdir a"),
    "a pipe": ("V = os.path.exists(HERE + '/p')", "mkfifo p"),
    "a pipe that is gone": ("V = os.access(HERE + '/pipe', os.F_OK)", "rm pipe"),
    "links that led nowhere": ("V = os.path.exists(HERE + '/loop')", "rm loop; touch loop"),
    "read in C": (
        f"{C}B = ctypes.create_string_buffer(9); F = C.open(A.encode(), 0)\n"
        "V = C.read(F, B, 8), B.value; C.close(F)",
        MORE,
    ),
    "read by a child": ("import subprocess; V = subprocess.check_output(['cat', A], env={})", MORE),
    "mapped": (
        "import mmap\nwith open(A, 'rb') as F, mmap.mmap(F.fileno(), 0, prot=1) as M: V = bytes(M)",
        SAME_SIZE.format("a", "TEXT"),
    ),
    "a database": (
        "import sqlite3; D = sqlite3.connect(HERE + '/q.db')\n"
        "V = D.execute('pragma user_version').fetchall(); D.close()",
        "cat next.db > q.db",
    ),
    "an archive": (
        "import zipfile; V = zipfile.ZipFile(HERE + '/z.zip').namelist()",
        "cat next.zip > z.zip",
    ),
    "a module": (GET.format("plug.one"), "echo V = 1 > lib/plug/one.py"),
    "a package before a module": (
        GET.format("plug.two"),
        "mkdir lib/plug/two; echo V = 1 > lib/plug/two/__init__.py",
    ),
    "a module of the library's name": (GET.format("wave"), "echo V = 1 > lib/wave.py"),
    "a module that was not there": (
        "try: from plug import fast as V\nexcept ImportError: V = None",
        "touch lib/plug/fast.py",
    ),
    "a module that was looked for": (FIND.format("found"), "rm lib/found.py"),
    "a module of the same size and time": (
        GET.format("plug.said"),
        SAME_SIZE.format("lib/plug/said.py", "V = 2"),
    ),
    "a text beside compiled modules": (
        "V = open(HERE + '/lib/__pycache__/text').read()",
        "echo more > lib/__pycache__/text",
    ),
    "a module that is written through a mapping": (
        GET.format("plug.said"),
        MAPPED.format("lib/plug/said.py", "V = 3"),
    ),
    "a link on the search path": (GET.format("current"), "ln -sfn releases/2 current"),
    "a link above the search path": (GET.format("above"), "ln -sfn releases/2 above"),
    "another folder above it": (GET.format("renamed"), "mv app old; mv next app"),
    "a module of an archive": (GET.format("zipped"), "cat next.zip > lib.zip"),
    "another archive in its place": (GET.format("zipped"), "mv next.zip lib.zip"),
    "plug-ins of a package": (
        "import pkgutil, plug; V = [m.name for m in pkgutil.iter_modules(plug.__path__)]",
        "touch lib/plug/three.py",
    ),
    "a file of a package": (
        "from importlib.resources import files\nV = [p.name for p in files('plug').iterdir()]",
        "touch lib/plug/data.txt",
    ),
    "an entry point": (
        "from importlib.metadata import entry_points; V = len(entry_points(group='looks'))",
        "mkdir lib/new-1.dist-info; printf '[looks]\na = json\n' > lib/new-1.dist-info/entry_points.txt",
    ),
    "an installed version": (VERSION, "sed -i s/1$/2/ lib/dist-1.dist-info/METADATA"),
    "another installed version": (
        VERSION,
        "mv lib/dist-1.dist-info lib/dist-2.dist-info; sed -i s/1$/2/ lib/dist-2.*/METADATA",
    ),
    "a part of a namespace": ("import space; V = len(space.__path__)", "mkdir more/space"),
    "a start file": (
        "import sys; V = hasattr(sys, 'custom')",
        "echo 'import sys; sys.custom = 1' > lib/sitecustomize.py",
    ),
    "a setting above": (
        "from pathlib import Path\nV = [p for p in Path(HERE, 'x').parents if (p / '.set').exists()]",
        "touch .set",
    ),
    "a configuration of OpenSSL": (
        "import ssl; V = ssl.create_default_context().minimum_version.name",
        "sed -i s/1.2/1.3/ openssl.cnf",
    ),
    "a translation": (
        "import gettext; V = gettext.find('app', HERE + '/locale', ['de'])",
        "mkdir -p locale/de/LC_MESSAGES; touch locale/de/LC_MESSAGES/app.mo",
    ),
    "shared memory": (
        "V = os.path.exists('/dev/shm/' + HERE.replace('/', '-'))",
        "touch /dev/shm/$(pwd | tr / -)",
    ),
    "a program": (
        "import shutil; V = shutil.which('tool', path=HERE + '/bin')",
        "touch bin/tool; chmod 755 bin/tool",
    ),
}

SAME = {
    "touched": "touch lib/plug/one.py",
    "written again": ": > lib/plug/one.py",
    "another name": "ln lib/plug/one.py below/again",
    "a copy": "cp -p a copy; mv copy a",
    "a log": "touch lib/app.log",
    "a folder without modules": "mkdir lib/os; touch lib/os/text",
    "a cache": "mkdir lib/plug/__pycache__; touch lib/plug/__pycache__/x",
}
"""What makes no difference."""


def shell(command: str) -> tuple[str, ...]:
    return ("sh", "-c", f'{command}; exec "$@"', "sh")


def under(*prefix: str) -> dict[str, Any]:
    return {"prefix": prefix}


def env(**variables: str) -> dict[str, Any]:
    return {"env": variables}


def mounted(command: str) -> dict[str, Any]:
    return under("unshare", "-m", *shell(command))


OTHER_HOST = under("unshare", "-u", *shell("hostname other"))
NOT_ROOTS = under("setpriv", "--bounding-set=-dac_override,-dac_read_search")
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a variable": ("V = os.environ.get('FOO')", env(FOO="1")),
    "whether a variable is set": ("V = 'FOO' in os.environ", env(FOO="1")),
    "a variable in C": (
        f"{C}C.getenv.restype = ctypes.c_char_p; V = C.getenv(b'FOO')",
        env(FOO="1"),
    ),
    "a variable as bytes": ("V = os.environb.get(b'FOO')", env(FOO="1")),
    "a variable in a text": ("V = os.path.expandvars('$FOO')", env(FOO="1")),
    "a variable of a shell": ("V = os.environ.get('SHLVL')", env(SHLVL="7")),
    "the home": ("V = os.path.expanduser('~')", env(HOME="/tmp")),
    "the user's packages": ("import site; V = site.getuserbase()", env(HOME="/tmp")),
    "the terminal's size": ("import shutil; V = shutil.get_terminal_size()", env(COLUMNS="33")),
    "the temporary folder": ("import tempfile; V = tempfile.gettempdir()", env(TMPDIR="/")),
    "the path": ("V = os.environ['PATH']", env(PATH="/bin")),
    "the time zone": ("import time; V = time.localtime(0)[3]", env(TZ="Asia/Tokyo")),
    "the name of the time zone": ("import time; V = time.tzname", env(TZ="Asia/Tokyo")),
    "the locale": ("import locale; V = locale.getlocale()", env(LC_ALL="C")),
    "the language": ("V = os.environ.get('LANG')", env(LANG="de_DE.UTF-8")),
    "warnings": ("import sys; V = [*sys.warnoptions]", env(PYTHONWARNINGS="ignore")),
    "processors by a variable": ("V = os.cpu_count()", env(PYTHON_CPU_COUNT="9")),
    "a folder that is gone": (
        "try: os.getcwd(); V = 1\nexcept OSError: V = 0",
        under(*shell("mkdir gone; cd gone; rmdir ../gone")),
    ),
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
    "the user": ("V = os.getuid()", under("setpriv", "--reuid=1")),
    "the group": ("V = os.getgid()", under("setpriv", "--regid=1", "--keep-groups")),
    "the groups": ("V = os.getgroups()", under("setpriv", "--groups=7")),
    "whether it may be written": ("V = os.access(HERE + '/ro', os.W_OK)", NOT_ROOTS),
    "a limit": ("import resource; V = resource.getrlimit(7)[0]", under("prlimit", "--nofile=1500")),
    "a limit by its name": ("V = os.sysconf('SC_OPEN_MAX')", under(*shell("ulimit -n 1500"))),
    "the processors": ("V = len(os.sched_getaffinity(0))", under("taskset", "1")),
    "an ignored signal": (
        "import signal; V = signal.getsignal(2) == signal.SIG_IGN",
        under(*shell("trap '' INT")),
    ),
    "the handler before its own": (
        "import signal; V = signal.signal(15, signal.SIG_DFL) == signal.SIG_IGN",
        under(*shell("trap '' TERM")),
    ),
    "a blocked signal": (
        "import signal; V = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        under("env", "--block-signal=USR1"),
    ),
    "the kernel": ("import platform; V = platform.release()", under("setarch", "--uname-2.6")),
    "the machine": ("import platform; V = platform.machine()", under("setarch", "linux32")),
    "the host": ("import socket; V = socket.gethostname()", OTHER_HOST),
    "a file of the kernel's": ("V = open('/proc/sys/kernel/hostname').read()", OTHER_HOST),
    "limits by a file": ("V = open('/proc/self/limits').read()", under(*shell("ulimit -n 1500"))),
    "what the kernel can mount": (
        "V = open('/proc/filesystems').read(), open('/proc/self/cgroup').read()",
        mounted("mount --bind /etc/passwd /proc/filesystems"),
    ),
    "the zone of the machine": (
        "import time; V = time.strftime('%Z', time.localtime(0))",
        mounted("mount --bind /usr/share/zoneinfo/Asia/Tokyo /etc/localtime"),
    ),
    "a user by name": (
        "import pwd; V = [*map(list, pwd.getpwall())]",
        mounted("mount --bind {here}/passwd /etc/passwd"),
    ),
    "a device": (
        "V = os.path.exists('/dev/zz')",
        mounted(
            "mount -t tmpfs none /dev; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9;"
            "touch /dev/zz"
        ),
    ),
    "a file of a subsystem": (
        "V = os.path.exists('/sys/class/zz')",
        mounted("mount -t tmpfs none /sys/class; mkdir /sys/class/zz"),
    ),
    "a read-only file system": (
        "V = os.access(DATA, os.W_OK)",
        mounted("mount --bind {here} {here}; mount -o remount,ro,bind {here}"),
    ),
    "where a file can be made": (
        "try: F = os.open(HERE + '/data/try', os.O_CREAT | os.O_EXCL)\nexcept OSError: V = 0\n"
        "else: V = 1; os.close(F); os.unlink(HERE + '/data/try')",
        mounted("mount --bind {here} {here}; mount -o remount,ro,bind {here}"),
    ),
    "IPv6": (
        "import socket; S = socket.socket(socket.AF_INET6)\n"
        "try: S.bind(('::1', 0)); V = 1\nexcept OSError: V = 0\nS.close()",
        under("unshare", "-n"),
    ),
    "what standard input is": ("V = os.fstat(0).st_mode >> 12", {"input": b"text"}),
    "what a name of standard input is": (
        "V = os.stat('/dev/stdin').st_mode >> 12",
        {"input": b"text"},
    ),
}

WALKS: dict[str, tuple[str, dict[str, Any]]] = {
    name: (code, env(FOO="1"))
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
    "the arguments": ("arguments", "import sys; V = sys.argv[1:]"),
    "the path of the folder": ("folder", "import pathlib; V = pathlib.Path.cwd()"),
    "the same in C": (
        "folder", f"{C}B = ctypes.create_string_buffer(999); C.getcwd(B, 999); V = B.value"
    ),
    "names in the folder": ("folder", "V = os.listdir('.')"),
    "the folder of a program": ("folder", "import subprocess; subprocess.run(['/bin/pwd', '-P'], stdout=-1)"),
    # The next module reads no other one: what is asked is said of the module that was read last.
    "the search path": ("folder", "import socket, sys; V = tuple(sys.path)"),
    "the first folder of the search path": ("folder", "import sys; V = sys.path[0]"),
    "whether the folder is on the search path": ("folder", "import sys; V = '' in sys.path"),
    "where a folder is on the search path": ("folder", "import sys; V = sys.path.index(HERE + '/lib')"),
    "the way from the folder": ("folder", "V = os.path.relpath(HERE)"),
    "what may be done in the folder": ("folder", "V = os.access('.', os.W_OK)"),
    "a place in the search path": ("folder", "import sys; sys.path.insert(1, ''); sys.path.remove('')"),
    "interfaces": ("network", "import socket; V = socket.if_nameindex()"),
    "routes": ("network", SOCKET.format("NETLINK", "RAW") + "S.close()"),
    "a connection": ("network", SOCKET.format("INET", "DGRAM") + "S.connect(('127.0.0.1', 9)); S.close()"),
    "a port": ("network", SOCKET.format("INET", "STREAM") + "S.bind(('127.0.0.1', 0)); S.close()"),
    "free space": ("filesystem", "V = os.statvfs('/').f_bavail"),
    "free space of what is open": ("filesystem", "F = os.open('/', 0); V = os.fstatvfs(F); os.close(F)"),
    "an attribute": ("filesystem", "V = os.listxattr(HERE)"),
    "memory": ("memory", "V = os.sysconf('SC_AVPHYS_PAGES')"),
    "load": ("memory", "V = os.getloadavg()"),
    "a file of the process": ("kernel", "V = open('/proc/self/stat').read()"),
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
    "filters": ("process", f"{C}V = C.prctl(21, 0, 0, 0, 0)"),
    "shared memory of System V": ("process", f"{C}V = C.shmget(99, 0, 0)"),
    "standard input": ("process", "import sys; V = sys.stdin.read()"),
    "what standard output is": ("process", "V = os.fstat(1).st_mode"),
    "where standard output is": ("process", "try: V = os.lseek(1, 0, 1)\nexcept OSError: V = None"),
    "what it prints": ("output", "print('text')"),
    "a warning": ("output", "import warnings; warnings.warn('old', DeprecationWarning, stacklevel=2)"),
    "a limit that it sets": ("state", "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"),
    "a child that it keeps": ("state", "import subprocess; V = subprocess.Popen(['/bin/true'], env={})"),
    "a directory that it goes to": ("state", "os.chdir('/')"),
    "a folder that it makes": ("made", "import tempfile; V = tempfile.mkdtemp(__name__)"),
    "a file that it adds to": ("made", "with open(MINE, 'a') as F: F.write('line')"),
    "a file that it writes": ("made", "with open(MINE, 'w') as F: F.write('text')"),
    "a file that it replaces": ("made", "open(MINE + '-', 'w').close(); os.rename(MINE + '-', MINE)"),
    "a time that it sets": ("made", "open(MINE, 'a').close(); os.utime(MINE)"),
    "a log with a line": ("made", "import logging; logging.basicConfig(filename=MINE, level=0); logging.info('1')"),
}  # fmt: skip


def filled(here: Path) -> None:
    """What FILES and STARTS find."""
    for name, text in {
        "a": "text", "b": "other", "data/one": "1", "x.ini": "", "below/y": "", "ro": "",
        "passwd": "zz:x:7:7::/:/bin/sh\n", "openssl.cnf": OPENSSL.format("TLSv1.2"),
        "lib/plug/__init__.py": "", "lib/plug/one.py": "", "lib/plug/two.py": "",
        "lib/plug/said.py": "V = 1", "lib/__pycache__/text": "text", "lib/found.py": "", "lib/space/one.py": "",
        "lib/dist-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: dist\nVersion: 1\n",
        "more/text": "", "bin/text": "", "app/lib/renamed.py": "V = 1", "next/lib/renamed.py": "V = 2",
        **{f"releases/{n}/current.py": f"V = {n}" for n in (1, 2)},
        **{f"releases/{n}/lib/above.py": f"V = {n}" for n in (1, 2)},
    }.items():  # fmt: skip
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    for name in ("empty", "lib/parts"):
        (here / name).mkdir()
    subprocess.run(["mkfifo", here / "pipe"], check=True)
    links = {"loop": "loop", "link": "a", "to": "data"}
    for name, to in (links | dict.fromkeys(("current", "above"), "releases/1")).items():
        (here / name).symlink_to(to)
    (here / "ro").chmod(0o444)
    for name, value in {"z.zip": 0, "lib.zip": 1, "next.zip": 2}.items():
        with zipfile.ZipFile(here / name, "w") as file:
            file.writestr("zipped.py" if value else "one", f"V = {value}")
    for name, value in {"q.db": 1, "next.db": 2}.items():
        with closing(sqlite3.connect(here / name)) as database:
            database.execute(f"pragma user_version = {value}")


class Table:
    """The image of a table: a module of each row, and what each has found."""

    def __init__(self, rows: Mapping[str, tuple[str, Any]], folder: Path, *words: str) -> None:
        self.rows = rows
        self.images = Images(folder)
        self.here = folder / "here"
        filled(self.here)
        for at, row in enumerate(rows.values()):
            code = row[1] if rows is REFUSED else row[0]
            path = self.here / f"lib/m{at}.py"
            path.write_text(f"{BEGINS.format(self.here)}{code}\n")
        places = ("lib", "more", "no", "current", "above/lib", "app/lib", "lib.zip")
        self.images.environ |= {
            "PYTHONPATH": ":".join(f"{self.here}/{place}" for place in places),
            "OPENSSL_CONF": f"{self.here}/openssl.cnf",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        subprocess.run(["cp", "-a", self.here, folder / "kept"], check=True)
        names = ",".join(f"m{at}" for at in range(len(rows)))
        self.done = self.images.build("--preload", names, *words)
        assert self.done.returncode == 0, self.done.stderr
        self.images.image.chmod(0o644)

    @contextmanager
    def changed(self, command: str) -> Iterator[None]:
        """Until the end of the block."""
        try:
            subprocess.run(command, shell=True, cwd=self.here, check=True)
            yield
        finally:
            (Path("/dev/shm") / str(self.here).replace("/", "-")).unlink(missing_ok=True)
            shutil.rmtree(self.here)
            subprocess.run(["cp", "-a", self.here.with_name("kept"), self.here], check=True)

    def run(self, name: str, program: str, how: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """What a program prints that is started in some way."""
        prefix = [word.replace("{here}", str(self.here)) for word in how.get("prefix", ())]
        at = [*self.rows].index(name)
        words = ["-c", f"import m{at}; print(repr(m{at}.V))", *how.get("args", ())]
        first, *rest = [*prefix, str(BIN / program), *how.get("options", ()), *words]
        ended = self.images.run(
            *rest, program=Path(first), environ={**SAID, **how.get("env", {})},
            cwd=self.here.parent / how["cwd"] if "cwd" in how else "/",
            **{"input": how["input"]} if "input" in how else {"stdin": subprocess.DEVNULL},
        )  # fmt: skip
        return ended.out, ended.err

    def compared(self, name: str) -> tuple[bytes, bytes, bytes, bytes]:
        """By python before a change and after it, then out of the image, and why not out of it."""
        row = self.rows[name][1]
        how = row if isinstance(row, dict) else {}
        before, _ = self.run(name, "python", {})
        served, why = self.run(name, "pasture-python", {})
        assert served == before and b"started from the image" in why, why.decode()
        with nullcontext() if how else self.changed(row):
            after, _ = self.run(name, "python", how)
            image, why = self.run(name, "pasture-python", how)
        return before, after, image, why
