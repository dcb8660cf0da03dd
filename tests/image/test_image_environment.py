"""No variable of an image's builder reaches a program, however a module reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from images import BIN, SAID, STUB, TIMEOUT_S, Images, compile_library
from running import completed

pytestmark = [pytest.mark.once, pytest.mark.integration]

SECRET = "sk-9f86d081884c7d65"

WALKS = {
    "dict": "dict(os.environ).get('TOKEN')",
    "union": "(os.environ | {}).get('TOKEN')",
    "union from the right": "({} | os.environ).get('TOKEN')",
    "copy": "os.environ.copy().get('TOKEN')",
    "items": "[v for k, v in os.environ.items() if k.lower() == 'token']",
    "keys": "[k for k in os.environ.keys() if k.startswith('TOK')]",
    "values": "[v for v in os.environ.values() if v.startswith('sk-')]",
    "iteration": "[os.environ[k] for k in os.environ if k == 'TOKEN']",
    "length": "len(os.environ)",
    "text": "'TOKEN' in repr(os.environ)",
    "equal": "os.environ == {}",
    "removed": "os.environ.clear(), len(os.environ)",
    "taken": "sorted(os.environ.popitem() for _ in range(3))",
    "bytes": "dict(os.environb).get(b'TOKEN')",
    "posix": "dict(posix.environ).get(b'TOKEN')",
    "posix items": "[v for k, v in posix.environ.items() if k == b'TOKEN']",
    "posix unpacked": "{**posix.environ}.get(b'TOKEN')",
    "deep copy": "copy.deepcopy(posix.environ).get(b'TOKEN')",
    "a program that inherits": "subprocess.run(['sh', '-c', 'echo $TOKEN'], stdout=-1).stdout",
    "a shell": "os.popen('echo $TOKEN').read()",
    "system": "os.system('test -n \"$TOKEN\"')",
    "spawned": "os.waitpid(os.spawnlp(os.P_NOWAIT, 'sh', 'sh', '-c', 'test -n \"$TOKEN\"'), 0)[1]",
    "too many in C": "ctypes.CDLL(None).getenv(b'N' * 70000)",
    "posix_spawn": "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'test -n \"$TOKEN\"'], "
    "posix.environ), 0)[1]",
}
READS = {
    "get": "os.environ.get('TOKEN')",
    "getenv": "os.getenv('TOKEN')",
    "getenvb": "os.getenvb(b'TOKEN')",
    "in": "'TOKEN' in os.environ",
    "one of bytes": "os.environb.get(b'TOKEN')",
    "one of posix": "posix.environ.get(b'TOKEN')",
    "default": "os.environ.setdefault('TOKEN', 'none')",
    "popped": "os.environ.pop('TOKEN', 'none')",
    "expanded": "os.path.expandvars('$TOKEN')",
    "in C": "(ctypes.CDLL(None).getenv(b'TOKEN') or 0) != 0",
    "in C, which deletes it": "[ctypes.CDLL(None)[name](b'TOKEN') != 0 for name in "
    "('getenv', 'unsetenv', 'getenv')]",
}
NO_READS = {
    "set": "os.environ.update(TOKEN='1', MORE='2')",
    "read after it was set": "os.environ.__setitem__('TOKEN', '1'), os.environ['TOKEN']",
    "another program with variables of its own": "subprocess.run(['true'], env={}).returncode",
    "read again in each program": "exec('os.getenv(\"JPY_PARENT_PID\")', "
    "{'os': os, '__name__': 'ipykernel.kernelapp'})",
}
EACH = """
import copy, ctypes, json, os, posix, re, subprocess, sys
def each(*works):
    for name, expression in json.loads(sys.argv[1]).items():
        found = []
        for work in works:
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.write(writer, json.dumps(work(expression)).encode())
                os._exit(0)
            os.close(writer)
            os.wait()
            found += json.loads(os.read(reader, 1 << 16))
        print(json.dumps([name, found]), flush=True)
"""
"""Each way to read has a process of its own."""
RECORDER = f"""{EACH}
from pasture_image.inside import environment, variables
from pasture_image.inside.observing import Observed
starts = dict(TOKEN={SECRET!r}, OTHER="2", PATH=os.environ["PATH"])
names = dict(globals(), __name__="settings")
def by_the_interpreter(expression):
    os.environ.update(starts)
    return [repr(eval(expression, names))]
def while_loading(expression):
    file = os.memfd_create("environment")
    environment.write(starts, file)
    with variables.VariablesRead(file) as recorded, Observed(recorded.read_all):
        found = eval(expression, names)
    return repr(found), sorted(variables.read), sorted(variables.walkers)
os.environ.clear()
each(by_the_interpreter, while_loading)
"""


def of_each(program: str, ways: Mapping[str, str], environ: Mapping[str, str]) -> Any:
    done = completed([sys.executable, "-c", program, json.dumps(ways)], env=environ)
    assert not done.returncode, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def test_what_is_asked_for_is_read_a_walk_reads_all_and_what_a_module_sets_is_not_read() -> None:
    ways = {**WALKS, **READS, **NO_READS}
    many = "code in C (it asks getenv for too many names)"
    walkers_of = {**dict.fromkeys(WALKS, "settings"), "too many in C": many}
    recorded = of_each(RECORDER, ways, os.environ)
    assert recorded.keys() == ways.keys()
    for way, (expected, found, names, walkers) in recorded.items():
        walker = walkers_of.get(way)
        assert (found, walkers) == (expected, [walker] if walker else []), way
        assert walker or names == (["TOKEN"] if way in READS else []), way


ASKS = {
    "prefix": ("{k[4:].lower(): v for k, v in E.items() if k.startswith('APP_')}", ["APP_"], []),
    "two prefixes": ("[k for k in E if k.startswith(('A_', 'B_'))]", ["A_", "B_"], []),
    "in any case": ("[E[k] for k in E if k.upper().startswith('APP_')]", ["APP_"], []),
    "slice": ("[k for k in E if k[:4] == 'APP_']", ["APP_"], []),
    "equal": ("[v for k, v in E.items() if k == 'APP']", ["APP"], []),
    "one of some": ("[k for k in E.keys() if k in ('A', 'B')]", ["A", "B"], []),
    "suffix": ("[k for k in E if k.lower()[-6:] == '_proxy']", [], ["_proxy"]),
    "end": ("[k for k in E if k.endswith('_PROXY')]", [], ["_PROXY"]),
    "part": ("[k for k in E if 'PROXY' in k or 'URL' in k]", [], ["PROXY", "URL"]),
    "one of two that are not used": (
        "[k for k in E if k.startswith(('ZQ', 'B')) and k == 'A']",
        *(["A", "B", "ZQ"], []),
    ),
    "of several": ("[k for k in E if k[-6:-5] == '_' and k[-5:] == 'proxy']", [], ["_", "proxy"]),
    "of several, used": ("[E[k] for k in E if '_' in k and not k.startswith('A')]", ["A"], ["_"]),
}
"""What says which variables matter: how they begin, and what they contain."""
BLIND = {
    "sorted": "[k for k in sorted(E) if k.startswith('APP_')]",
    "long enough": "[k for k in E if len(k) > 5 and k[-5:] == 'PROXY']",
    "copy": "E.copy()",
    "dict": "dict(E)",
    "set": "{'APP'} & set(E)",
    "regular expression": "[k for k in E if re.match('APP_', k)]",
    "counted": "len(E)",
    "values": "[v for v in E.values() if v == 'x']",
    "kept by what it is not": "globals().update(kept=[k for k in E if not k.startswith('_')])",
    "values kept": "globals().update(kept=[v for k, v in E.items() if not k.startswith('_')])",
    "bytes": "[k for k in os.environb if k.startswith(b'APP_')]",
    "posix": "[k for k in posix.environ if k.startswith(b'APP_')]",
    "piece": "[k for k in E if k.split('_')[0] == 'APP']",
    "found": "[k for k in E if k.find('URL') > 0]",
    "removed prefix": "[k for k in E if k.removeprefix('APP_') == 'X']",
    "made longer": "[k for k in E if k.ljust(9) == 'APP      ']",
    "replaced": "[k for k in E if k.replace('_', '-').startswith('APP-')]",
    "text": "[k for k in E if f'{k}'.startswith('APP-')]",
    "first": "next(iter(E))",
    "of a length": "[k for k in E if len(k) == 7 and k.startswith('APP_')]",
    "copied twice": "[d.get('A') for d in [{**dict(E)}] for k in d if k == 'B']",
    "copied and united": "[k for d in [dict(E) | {}] for k in d if k == 'B']",
    "copied and counted": "[k for d in [dict(E)] for k in d if len(d) > 5 and k == 'B']",
    "keys of a copy": "[k for d in [dict(E)] for k in d if k == 'B' or 'A' in d.keys()]",
    "hashed": "[d for d in [{}] for k in E if (d.update({k: 1}), k in {'X'}, k == 'B')[2]]",
    "hashed in a copy": "[k for d in [dict(E)] for k in d if k == 'B' or k in {'A'}]",
    "kept copy": "globals().update(d=dict(E), f=[k for k in E if k == 'B'])",
    "not empty": "[k for k in E if k and re.match('APP_', k)]",
}
LOADER = f"""{EACH}
from pasture_image.inside.names import Names
E = os.environ
def looked_for(expression):
    space = dict(globals(), __name__="settings")
    with Names() as names:
        eval(expression, space)
    walk = names.walks["settings"]
    return [] if walk.is_blind else [sorted(walk.begins), sorted(walk.contains)]
each(looked_for)
"""


def test_a_walk_says_for_which_variables_it_looks_or_that_it_does_not() -> None:
    ways = {**{name: ask for name, (ask, *_) in ASKS.items()}, **BLIND}
    expected = {name: rest for name, (_, *rest) in ASKS.items()} | {name: [] for name in BLIND}
    assert of_each(LOADER, ways, {"APP_X": "1", "HOME": "/"}) == expected


LOOKS = """import os
MINE = {k[4:].lower(): v for k, v in os.environ.items() if k.startswith("APP_")}
URLS = [v for k, v in os.environ.items() if k.lower().endswith("_url")]
os.environ.get("SINGLE"), os.environ.get("EDITOR")
"""


def test_only_variables_that_a_walk_looks_for_are_compared(own_images: Images) -> None:
    own_images.module("looks", LOOKS)
    own_images.environ |= {"APP_MODE": "fast", "EDITOR": "vi"}
    own_images.built("--preload", "looks", "--env", "APP_MODE")
    source = "import looks; print(looks.MINE, looks.URLS)"
    usual = {f"NAME_{number}": f"{number}" for number in range(40)}
    usual |= {"PATH": "/bin", "TERM": "dumb", "SHELL": "/bin/zsh", "PS1": "$", "PASTURE_X": "1"}
    assert own_images.why("-c", source, environ=usual) == ""
    assert own_images.document()["notes"] == []
    assert own_images.why("-c", source, environ={"LANG": "C", "HOME": "/"}) == ""
    of_walks = ("APP_MODE", "APP_NEW", "app_new", "DATABASE_URL", "Database_Url")
    for name in (*of_walks, "SINGLE", "EDITOR"):
        given = {"environ": {**usual, name: "7"}}
        assert own_images.why("-c", source, **given).endswith(f": {name}")
        assert own_images.run("-c", source, **given) == own_images.python("-c", source, **given)


BEGINS = "import os\nFOUND = [one for one in os.environ if one.startswith('TOK')]\n"
EXECUTES = """
import ctypes, os, sys
words = [word.encode() for word in sys.argv[1:]] + [None]
pairs = [b"TOKENS", *(b"%b=%b" % pair for pair in os.environb.items()), None]
arrays = [(ctypes.c_char_p * len(each))(*each) for each in (words, pairs)]
ctypes.CDLL(None).execve(words[0], *arrays)
"""


def test_a_variable_is_known_by_its_whole_name_and_what_has_no_value_is_none(
    own_images: Images,
) -> None:
    own_images.module("begins", f"{BEGINS}TOKEN = os.environ.get('TOKEN')\n")
    own_images.built("--preload", "begins")
    assert own_images.why("-c", "pass", environ={"TOK": "1"}).endswith(": TOK")
    words = ("-c", EXECUTES, str(STUB), "-c", "print(1)")
    ended = own_images.python(*words, environ=SAID)
    assert ended.out == b"1\n"
    assert b"started from the image" in ended.err


UNWATCHED = """
import ctypes, os
from pasture_image.inside import environment, variables
file = os.memfd_create("environment")
environment.write({"TOKEN": "1", "PWD": "/"}, file)
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE: no memory is both written and run
    raise SystemExit(77)
with variables.VariablesRead(file):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    print(getenv(b"TOKEN"), getenv(b"PWD"))
print(*sorted(variables.walkers))
print({"TOKEN", "OTHER"} & set(variables.needed({"TOKEN": "1", "OTHER": "2"}, (), ())))
"""


def test_all_variables_count_where_getenv_cannot_be_watched() -> None:
    done = completed([sys.executable, "-c", UNWATCHED], env={})
    if done.returncode == 77:
        pytest.skip("Linux before 6.3 does not refuse that")
    assert not done.returncode, done.stderr
    found, walkers, names = done.stdout.splitlines()
    assert (found, walkers) == ("b'1' None", "code in C (getenv cannot be watched here)")
    assert "TOKEN" in names
    assert "OTHER" in names


FORKS = """
import ctypes, os, threading
from pasture_image.inside import environment, variables
file = os.memfd_create("environment")
environment.write({"TOKEN": "1"}, file)
getenv = ctypes.CDLL(None).getenv
ended = threading.Event()
def ask():
    while not ended.is_set():
        getenv(b"LAST")
with variables.VariablesRead(file):
    for i in range(6000):
        getenv(b"NAME_%04d" % i)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        if (pid := os.fork()) == 0:
            getenv(b"TOKEN")
            os._exit(0)
        os.waitpid(pid, 0)
ended.set()
"""


def test_a_fork_while_a_thread_is_in_getenv_does_not_hang_the_child() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=True, timeout=TIMEOUT_S)


def test_a_walk_counts_for_all_variables_but_those_of_shells_and_logins(
    own_images: Images,
) -> None:
    own_images.module("walks", "import os\nFOUND = dict(os.environ)\n")
    own_images.built("--preload", "walks", f"--env=TOKEN={SECRET}", "--env=PATH")
    [note] = own_images.document()["notes"]
    assert (note["code"], note["subject"]) == ("variables", "walks")
    assert "walks reads all variables" in note["text"]
    same = {"TOKEN": SECRET}
    of_a_start = ("SHLVL", "PWD", "_", "SSH_TTY", "INVOCATION_ID", "JPY_PARENT_PID", "PASTURE")
    for name in (*of_a_start, "PASTURE_POLICY", "PASTURE_OF_A_LATER_VERSION"):
        assert own_images.why("-c", "pass", environ={**same, name: "7"}) == "", name
    for name in (
        "OTHER",
        "LANG",
        "HOME",
        "PASTURES",
        "HOST",
        "PWDS",
    ):  # two begin as one of these, or one so
        assert own_images.why("-c", "pass", environ={**same, name: "7"}).endswith(f": {name}")


ASKING = """\
#include <stdio.h>
#include <string.h>
static const char name[] = "ASKED_OF_KERNEL";
int answer(void)
{
    char text[65536];
    FILE *file = fopen("/proc/self/environ", "r");
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        if (strncmp(at, name, sizeof name - 1) == 0)
            return 1;
    return 0;
}
"""


def test_of_what_code_in_c_asks_the_kernel_for_count_names_in_its_text(own_images: Images) -> None:
    library = own_images.lib / "asking.so"
    compile_library(library, ASKING)
    own_images.module("asks", f"import ctypes\nA = ctypes.CDLL({str(library)!r}).answer()\n")
    own_images.built("--preload", "asks")
    assert "asked" in [note["code"] for note in own_images.document()["notes"]]
    source = "import asks; print(asks.A)"
    for environ in ({}, {"NEW": "1"}, {"HOME": "/tmp"}, {"LANG": "C"}):
        assert own_images.why("-c", source, environ=environ) == ""
    given = {"ASKED_OF_KERNEL": "1"}
    assert own_images.why("-c", source, environ=given).endswith(": ASKED_OF_KERNEL")
    built = own_images.build("--preload", "asks", environ=given)
    assert "for the variables ASKED_OF_KERNEL: --env" in built.stdout
    built = own_images.build("--preload", "asks", "--env", "ASKED_OF_KERNEL", environ=given)
    assert (built.returncode, "for the variables" in built.stdout) == (0, False)
    assert own_images.served("-c", source, environ=given).out == b"1\n"
    for other in ({}, {"ASKED_OF_KERNEL": "2"}):
        assert own_images.why("-c", source, environ=other).endswith(": ASKED_OF_KERNEL")


def test_a_variable_that_a_library_in_c_reads_unseen_is_compared(own_images: Images) -> None:
    own_images.module("ray", "")
    own_images.environ["RAY_SAME"] = "1"
    own_images.built("--preload", "ray", "--env", "RAY_SAME")
    assert own_images.why("-c", "import ray") == ""
    for name in ("RAY_JOB_ID", "RAY_SAME"):
        assert own_images.why("-c", "import ray", environ={name: "2"}).endswith(f": {name}")


def test_a_variable_of_a_rehearsal_whose_name_says_that_it_is_a_secret_is_not_in_the_image(
    own_images: Images,
) -> None:
    own_images.module("reads", "import os\nMODE = os.environ.get('MODE')\n")
    rehearsal = own_images.folder / "rehearsal.py"
    rehearsal.write_text("import os; assert os.environ['API_KEY']\n")
    own_images.environ["MODE"] = "fast"
    own_images.built(
        *("--preload", "reads", "--rehearse", str(rehearsal)),
        *("--env", "MODE", "--env", f"API_KEY={SECRET}", "--env", "A_TEXT=77d1e0b9"),
    )
    assert own_images.why() == ""
    data = own_images.image.read_bytes()
    assert (SECRET.encode() in data, b"77d1e0b9" in data) == (False, True)


# -- the locale and HOME, of which each program gets what its own start would have made

STARTED = """
import sys, os, locale, site, sysconfig, subprocess
print(sys.flags, sys.stdin.errors, sys.stdout, sys.stderr.errors, sys.getfilesystemencoding())
print(locale.getpreferredencoding(), locale.getlocale(), [*map(locale.setlocale, range(7))])
print(sorted(os.environ.items()), open("/dev/null").encoding, os.fsencode(sys.argv[1]))
print(site.USER_SITE, site.USER_BASE, sysconfig.get_config_var("userbase"))
print(subprocess.run(["sh", "-c", "echo $LC_CTYPE $HOME"], capture_output=True).stdout)
"""
PLACES: dict[str, dict[str, str | None]] = {
    "none, as for cron": {"LANG": None},
    "empty": {"LANG": ""},
    "C": {"LANG": "C"},
    "C for all": {"LC_ALL": "C"},
    "UTF-8": {"LANG": "C.UTF-8"},
    "by its category": {"LANG": None, "LC_CTYPE": "C.UTF-8"},
    "not installed": {"LANG": "tlh_KX.UTF-8"},
    "in part": {"LANG": "C.UTF-8", "LC_TIME": "C"},
    "another home, as by sudo": {"HOME": "/tmp"},
    "no home": {"HOME": None, "LANG": None},
}
OF_INTERPRETER: dict[str, dict[str, str | None]] = {
    "set as a whole": {"LANG": "C", "LC_TIME": "C.UTF-8"},
    "a program that asks not to": {"LANG": "C", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.fixture(scope="module", params=["C.UTF-8", None])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Images:
    images = Images(tmp_path_factory.mktemp("anywhere"))
    images.environ["LANG"] = request.param or ""
    images.built("--preload", "json,sysconfig")
    return images


@pytest.mark.parametrize("place", [*PLACES, *OF_INTERPRETER])
def test_locale_and_home_are_those_of_the_start(anywhere: Images, place: str) -> None:
    given = {**PLACES, **OF_INTERPRETER}[place]
    environ = {n: v for n, v in {**anywhere.variables, **given}.items() if v is not None}
    seen = [
        subprocess.run([program, "-c", STARTED, b"\xff\xc3\xa4"], env=environ, capture_output=True)
        for program in (BIN / "python", STUB)
    ]
    assert seen[0].stdout.decode() == seen[1].stdout.decode()
    environ["PASTURE_IMAGE_VERBOSE"] = "1"
    said = subprocess.run([STUB, "-c", "pass"], env=environ, capture_output=True, check=True).stderr
    assert (b"started from the image" in said.splitlines()[-1]) == (place in PLACES)


def test_an_image_in_another_encoding_is_for_its_locale(own_images: Images) -> None:
    own_images.environ |= {"LC_ALL": "C", "PYTHONUTF8": "0"}
    own_images.built("--preload", "json")
    assert own_images.why() == ""
    assert "another encoding" in own_images.why(environ={"LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize(
    ("text", "another", "same", "said"),
    [
        ("import os; os.environ.get('LC_ALL')", {"LANG": "C"}, {"HOME": "/"}, "LANG"),
        ("import locale; locale.setlocale(locale.LC_ALL, '')", {"LANG": "C"}, {}, "LANG"),
        (
            "import locale; locale.setlocale(locale.LC_ALL)",
            {"LC_ALL": "C"},
            {"LANG": "C"},
            "setlocale()",
        ),
        (
            "import locale; locale.getpreferredencoding(False)",
            {"LANG": "C"},
            {"LANG": "C.utf8"},
            "getpreferredencoding()",
        ),
        ("import gettext; gettext.find('a')", {"LOCPATH": "/"}, {"LANG": "de"},
         "LOCPATH"),
    ],
)  # fmt: skip
def test_what_a_module_knows_of_the_locale_must_be_the_same(
    own_images: Images, text: str, another: dict[str, str], same: dict[str, str], said: str
) -> None:
    own_images.module("knows", text)
    own_images.built("--preload", "knows")
    assert said in own_images.why(environ=another)
    assert own_images.why(environ=same) == ""
