"""What is noted of the variables that a load reads, and walks over: in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

pytestmark = pytest.mark.once

TIMEOUT_S = 300
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


def completed(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *words], env=env, text=True, capture_output=True, timeout=TIMEOUT_S
    )


def of_each(program: str, ways: Mapping[str, str], environ: Mapping[str, str]) -> Any:
    done = completed(program, json.dumps(ways), env=environ)
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
    done = completed(UNWATCHED, env={})
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
