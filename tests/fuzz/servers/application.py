"""Makes a server of a number: its application, its engine, and what happens to it while it serves.

An application is lines of the zoo of `make fuzz-identity` (`pieces`) and holdings of
`tests/programs/holding_app.py`: at its import, and in the first request after each move. Invariant:
the same number makes the same server.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from generator import PRELUDE, Maker, exported, indented

ENGINES = {"gunicorn": 3, "gthread": 2, "uvicorn": 3, "celery": 1}
"""How often each is drawn, by its name in `matrix.holding.starts`."""
MOVES = ("HUP", "TTIN", "TTOU", "KILL", "TERM")
MODES = ("run", "run", "auto", "seal", "refork")
IMPORTS = (
    *("json", "decimal", "ssl", "sqlite3", "asyncio", "xml.etree.ElementTree", "email.message"),
    *("numpy", "django.http", "jinja2", "sqlalchemy", "pydantic", "requests", "yaml", "unittest"),
    *("multiprocessing.pool", "concurrent.futures.process", "logging.config", "ctypes", "zoneinfo"),
)
HELD = (
    *("thread", "restarted thread", "executor", "listener of logging", "flock", "lockf"),
    *("exclusive file", "process", "popen", "loop", "shared memory", "counters", "database"),
    *("temporary folder", "timer", "connection", "unix socket", "http.client", "xmlrpc"),
    *("asyncio streams", "manager", "dialogue", "redis", "urllib3", "consumer", "ids"),
    *("temporary file", "pipe", "read file", "watch", "handler", "registered traceback"),
)
PER_PROCESS = re.compile(r"getpid|random|hash\(|seed|uuid|ids")
"""Lines whose values one import has for all workers: docs/results/identities.md."""

SERVING = '''
import re, threading, time
import holding_app
STEPS, DONE, HOLDINGS, TURN = [], set(), {}, threading.Lock()
CHANCE = r"(?<=wgunicorn-)\\w+|/dev/shm/[^ ]+|/memfd:own|[0-9]+"  # each worker's own memory

def open_files():
    """Of what kind they are, without pasture's own and the pipe of a spawned process's tracker."""
    found, tracker = [], sys.modules.get("multiprocessing.resource_tracker")
    left_out = {str(tracker and tracker._resource_tracker._fd)}
    for number in set(os.listdir("/proc/self/fd")) - left_out:
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        is_chance = {is_asgi} and "socket" in target  # how many clients are still connected
        if not is_chance and "memfd:pasture" not in target:
            found.append(re.sub(CHANCE, "N", target))
    return {target: found.count(target) for target in sorted(found)}

def note_state():
    """What the kernel says of this process's signals and rights."""
    fields = "Sig[PBIC]|Umask|NoNew"
    if not {is_threaded}:  # how many threads of gthread have served is chance
        note("open files", open_files)
        fields += "|Threads" * ("numpy" not in sys.modules)  # in a child its threads start at use
    with open("/proc/self/status") as file:
        lines = [line.split() for line in file if re.match(fields, line)]
    for name, value in lines:
        note(name.strip(":"), lambda: value)

def take(step):
    """The lines of a step, once in each process."""
    global ROLE
    with TURN:
        if step not in DONE:
            DONE.add(step)
            ROLE = f"step {step} > {os.getpid()}"
            try:
                STEPS[step]()
            except Exception as error:
                note("raised", lambda: error)
            note_state()
        time.sleep(0.05)  # so that others accept, too
    return str(os.getpid())

def app(environ, start_response):
    body = take(int(environ["PATH_INFO"][1:])).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        body = take(int(scope["path"][1:])).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
'''
TASKS = """
import celery
tasks = celery.Celery(broker=os.environ["BROKER"], backend=os.environ["BROKER"])
tasks.task(name="take")(take)
"""


@dataclass(frozen=True)
class Server:
    """What is started, in which mode, and what happens before each step except the first."""

    number: int
    engine: str
    mode: str
    source: str
    moves: tuple[str, ...]


def server(number: int, folder: Path) -> Server:
    """The server of a number; its application writes notes to the folder."""
    chance = random.Random(number)
    engine = chance.choices(list(ENGINES), list(ENGINES.values()))[0]
    known = ("KILL",) if engine == "celery" else MOVES
    moves = tuple(chance.choices(known, k=chance.randint(1, 3)))
    modes = MODES if engine in ("gunicorn", "gthread") else MODES[:-1]
    maker = Maker(chance, is_file=False)
    top = [f"import {name}" for name in chance.sample(IMPORTS, chance.randint(0, 4))]
    drawn = [maker.line() for _ in range(chance.randint(0, 4))]
    top += [line for line in drawn if not PER_PROCESS.search(line)]
    top += [held(name) for name in chance.sample(HELD, chance.choice((0, 0, 1, 1, 2)))]
    steps = [step(chance, maker, at == 0) for at in range(len(moves) + 1)]
    serving = SERVING.replace("{is_threaded}", str(engine == "gthread"))
    serving = serving.replace("{is_asgi}", str(engine == "uvicorn"))
    source = [PRELUDE.format(notes=str(folder / "notes")), serving, *top, *steps]
    source += [TASKS] if engine == "celery" else []
    return Server(number, engine, chance.choice(modes), "\n".join(source) + "\n", moves)


def held(name: str) -> str:
    """A line that holds something, and has it asked for in each step."""
    return f"HOLDINGS[{name!r}] = holding_app.HOLD[{name!r}]()"


def step(chance: random.Random, maker: Maker, is_first: bool) -> str:
    """A function: lines, and what is held."""
    body = [maker.line() for _ in range(chance.randint(1, 4))]
    if is_first and chance.random() < 0.3:
        body.append(held(chance.choice(HELD)))
    name = f"step_{chance.getrandbits(32)}"
    asked = [
        "for name, is_there in list(HOLDINGS.items()):",
        "    note(name, is_there)",
        "note('leader', lambda: holding_app.leader)",
    ]
    lines = indented([*exported(body), *asked])
    return "\n".join([f"def {name}():", *lines, f"STEPS.append({name})"])


def words(command: Sequence[str], port: int) -> list[str]:
    """A command of `matrix.holding.starts`, for this application."""
    named = {"holding_tasks": "application:tasks", "holding_app:app": "application:app"}
    named["holding_app:asgi"] = "application:asgi"
    return [named.get(word, word).format(port=port) for word in command]
