"""`make bench-hits`: whether images serve where python would run: stacks by the places of a start.

An image of each stack is built once, in a shell, without options. Its program is then started in
many places: other shells, cron, services, continuous integration, other users, containers. Then
each place has one line before: `pasture image build -o FOLDER/`, with what the stack is allowed.
What is not served is listed with the reason that `pasture-python` gives. Goes on where it stopped;
writes docs/results/hits.md. Most places need root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click

from matrix import environments
from matrix.environments import REPOSITORY, build_digest, build_pasture, uv
from matrix.page import table
from matrix.store import Store, replace

MINOR = "3.14"
FOLDER = REPOSITORY / "build" / "hits"
PAGE = REPOSITORY / "docs" / "results" / "hits.md"
VARIABLE = "a variable that matters at the start"
TIMEOUT_S = 900.0
STARTED = "started from the image"
NO_IMAGE = "there is no image"
OTHER_ID = 65534
OTHER_USER = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""Another user, who may read the interpreter where it is."""

READ_ONLY = 'mount --rbind / "$0" && mount -o remount,ro,bind "$0" && exec chroot "$0" "$@"'


class Stack(NamedTuple):
    """Packages, what an image of them preloads, a program, and what its image is allowed."""

    packages: str
    preload: str
    words: tuple[str, ...]
    allow: tuple[str, ...] = ()


DJANGO = """\
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"])
django.setup()
from django.test import RequestFactory
print(RequestFactory().get("/").path, django.apps.apps.get_models()[0].__name__)
"""
FIT = """\
import numpy, pandas
from sklearn.linear_model import LinearRegression
frame = pandas.DataFrame({"a": numpy.arange(100.0), "b": numpy.arange(100.0) * 2})
print(LinearRegression().fit(frame[["a"]], frame["b"]).coef_)
"""
LLAMA = """\
from transformers import LlamaConfig, LlamaForCausalLM
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
print(sum(p.numel() for p in LlamaForCausalLM(LlamaConfig(vocab_size=99, **sizes)).parameters()))
"""
STACKS = {
    "torch": Stack(
        "torch numpy", "torch", ("-c", "import torch; print(torch.ones(3) @ torch.ones(3))"),
    ),
    "transformers": Stack(
        "torch numpy transformers", "torch,transformers.models.llama.modeling_llama", ("-c", LLAMA),
        ("folder",),
    ),
    "pandas, scikit-learn": Stack(
        "pandas scikit-learn", "pandas,sklearn.linear_model", ("-c", FIT)
    ),
    "Django": Stack(
        "django", "django.test,django.contrib.admin,django.core.management", ("-c", DJANGO)
    ),
    "Channels": Stack(
        "channels daphne", "channels.routing,daphne.server",
        ("-c", "import daphne.server; print(daphne.server.Server.__name__)"),
    ),
    "Airflow": Stack(
        "apache-airflow", "airflow.utils.db,airflow.utils.db_cleanup",
        ("-m", "airflow", "version"),
    ),
    "boto3, aws": Stack(
        "boto3 awscli", "awscli.clidriver", ("-m", "awscli", "--version")
    ),
    "Jupyter": Stack(
        "jupyterlab ipykernel", "ipykernel.kernelapp,IPython",
        ("-c", "from ipykernel.kernelapp import IPKernelApp; print(IPKernelApp.name)"),
    ),
    "Celery": Stack("celery redis", "celery.bin.celery,redis", ("-m", "celery", "--version")),
    "black": Stack("black", "black", ("-m", "black", "--version")),
    "ansible": Stack(
        "ansible-core", "ansible.cli.adhoc,ansible.executor.task_queue_manager",
        ("-m", "ansible", "localhost", "-m", "ping", "-i", "localhost,", "-c", "local"),
        ("arguments", "made", "network"),
    ),
    "mkdocs": Stack("mkdocs mkdocs-material", "mkdocs.commands.build,material.extensions.emoji",
                    ("-m", "mkdocs", "--version")),
    "spaCy": Stack("spacy", "spacy", ("-c", "import spacy; print(len(spacy.blank('en')('a b')))"),
                   ("folder",)),
    "LiteLLM": Stack("litellm", "litellm", ("-c", "import litellm; print(litellm.num_retries)"),
                     ("arguments", "network", "output")),
    "httpie": Stack("httpie", "httpie.core", ("-m", "httpie", "--offline", "GET", "http://a.b")),
}  # fmt: skip

SHELL = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "TERM": "xterm-256color",
    "USER": "root",
    "LOGNAME": "root",
    "PWD": "/root",
    "SHLVL": "1",
    "LS_COLORS": "di=01;34",
}
"""Where images are built."""


class Place(NamedTuple):
    """Where a program is started: what precedes the command, its variables and its folder.

    Attributes:
        without: variables of the shell that are not there; `*` for all.
    """

    given: Mapping[str, str]
    without: str = ""
    prefix: tuple[str, ...] = ()
    folder: str = "/root"


_UNIT = {"INVOCATION_ID": "3c0a", "JOURNAL_STREAM": "8:123", "SYSTEMD_EXEC_PID": "77"}
_CRON = {"HOME": "/root", "LOGNAME": "root", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
_GITHUB = {
    **{"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/root", "RUNNER_OS": "Linux"},
    **{"GITHUB_REF_NAME": "main", "GITHUB_REPOSITORY": "meadow/site", "GITHUB_RUN_ID": "1234567"},
    **{"GITHUB_SERVER_URL": "https://github.com", "RUNNER_TEMP": "/tmp", "GITHUB_JOB": "test"},
}
_GITLAB = {
    **{"CI": "true", "GITLAB_CI": "true", "CI_PROJECT_DIR": "/root", "CI_JOB_ID": "9876543"},
    **{"CI_COMMIT_REF_NAME": "main", "CI_SERVER_URL": "https://gitlab.com", "CI_JOB_STAGE": "test"},
}
_SSH = {
    **{"SSH_CLIENT": "10.0.0.2 51000 22", "SSH_CONNECTION": "10.0.0.2 51000 10.0.0.1 22"},
    **{"SSH_TTY": "/dev/pts/0", "XDG_SESSION_ID": "4", "XDG_RUNTIME_DIR": "/run/user/0"},
    **{"MOTD_SHOWN": "pam", "MAIL": "/var/mail/root"},
}
_JUPYTER = {
    **{"JPY_PARENT_PID": "4711", "JPY_SESSION_NAME": "a.ipynb", "CLICOLOR": "1", "PAGER": "cat"},
    **{"GIT_PAGER": "cat", "MPLBACKEND": "module://matplotlib_inline.backend_inline"},
}
PLACES = {
    "the same shell": Place({}),
    "another shell": Place(
        {"SHELL": "/bin/zsh", "TERM": "screen", "PATH": "/opt/bin:/usr/bin:/bin", "EDITOR": "vi",
         "COLORTERM": "truecolor", "LANG": "C.UTF-8", "HISTSIZE": "9000", "MY_TOKEN": "abcdefgh"},
    ),
    "cron": Place(_CRON, "*", folder="/"),
    "a unit of systemd": Place(
        {"LANG": "C.UTF-8", "PATH": SHELL["PATH"], "HOME": "/root", "USER": "root", **_UNIT}, "*",
        folder="/",
    ),
    "GitHub's runner": Place(_GITHUB, "TERM LS_COLORS"),
    "GitLab's runner": Place(_GITLAB, "TERM LS_COLORS"),
    "sudo": Place(
        {"SUDO_USER": "ada", "SUDO_UID": "1000", "SUDO_GID": "1000", "SUDO_COMMAND": "/bin/true",
         "HOME": "/tmp", "MAIL": "/var/mail/root"}, "LANG LS_COLORS",
    ),
    "ssh": Place(_SSH),
    "tmux": Place({"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,7,0", "TMUX_PANE": "%0"},
                  prefix=("script", "-qec")),
    "the first process of a pid namespace": Place(
        {}, prefix=("unshare", "-m", "-p", "--fork", "--mount-proc", "--kill-child")
    ),
    "another user": Place({"HOME": "/nonexistent", "USER": "ada", "LOGNAME": "ada"},
                          prefix=OTHER_USER, folder="/"),
    "a read-only root": Place({}, prefix=("unshare", "-m", "sh", "-c", READ_ONLY, "{scratch}"),
                              folder="/"),
    "another folder": Place({"PWD": "/tmp"}, folder="/tmp"),
    "no LANG": Place({}, "LANG"),
    "LANG=C": Place({"LANG": "C"}),
    "LANG=de_DE.UTF-8": Place({"LANG": "de_DE.UTF-8"}),
    "COLUMNS": Place({"COLUMNS": "132", "LINES": "50"}),
    "a container's HOSTNAME and HOME": Place(
        {"HOSTNAME": "8f3c1e77d0aa", "HOME": "/tmp", "PATH": SHELL["PATH"]}, "*", folder="/"
    ),
    "nohup": Place({}, prefix=("nohup",)),
    "make": Place({"MAKEFLAGS": "", "MAKELEVEL": "1", "MFLAGS": "", "MAKE_TERMOUT": "/dev/pts/0"}),
    "a git hook": Place({"GIT_DIR": ".git", "GIT_EDITOR": ":", "GIT_INDEX_FILE": ".git/index",
                         "GIT_PREFIX": "", "GIT_EXEC_PATH": "/usr/lib/git-core"}),
    "a Jupyter server": Place(_JUPYTER),
}  # fmt: skip

COMPARED = tuple(PLACES[name] for name in ("the same shell", "cron", "sudo", "no LANG"))
"""Where the program runs by `python`, too."""


@dataclass(frozen=True, slots=True)
class Start:
    """A program in a place: why it was not served, or ""; whether it ended as by `python`."""

    why: str
    is_same: bool


def environment(name: str) -> Path:
    """The environment of a stack, with pasture; returns its `bin`."""
    folder = FOLDER / name.replace(", ", "-")
    installed, of_tree = folder / "installed", folder / f"{_digest()}.stamp"
    install = ("pip", "install", "--quiet", "--python", folder / "bin" / "python")
    if not installed.exists():
        shutil.rmtree(folder, ignore_errors=True)
        uv("venv", "--quiet", "--python", environments.find_interpreter(MINOR), folder)
        uv(*install, *STACKS[name].packages.split())
        installed.touch()
    if not of_tree.exists():
        uv(*install, "--reinstall-package", "pasture", "--reinstall-package", "pasture-image",
           build_pasture(MINOR), _image_wheel())  # fmt: skip
        of_tree.touch()
    return folder / "bin"


@cache
def _digest() -> str:
    return build_digest(
        (*environments.BUILT_FROM, "packages/image/src", "packages/image/CMakeLists.txt")
    )


def _image_wheel() -> Path:
    folder = environments.WHEELS / f"image-{_digest()}"
    if not any(folder.glob("*.whl")):
        python = environments.find_interpreter(MINOR)
        source = REPOSITORY / "packages" / "image"
        uv("build", "--quiet", "--wheel", "--python", python, "--out-dir", folder, source)
    return next(folder.glob("*.whl"))


def built(name: str, bin: Path) -> str:
    """Builds the image of a stack where it is not there; why there is none, or ""."""
    image = bin.parent / f"{_digest()}.img"
    if image.exists():
        return ""
    words = ("image", "build", "-o", image, "--preload", STACKS[name].preload, "--mode", "644")
    done = subprocess.run(
        [bin / "pasture", *words],
        env=SHELL, cwd="/root", capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    click.echo(f"{name}: {done.stdout.strip()[-300:]}")
    said = done.stderr.replace(f"{FOLDER}/", "").strip().splitlines()
    return "" if done.returncode == 0 else said[-2][:200]


def start(name: str, place: Place, bin: Path, image: Path) -> Start:
    """Starts the program of a stack, by `python` and out of its image.

    Numbers that differ between two starts by `python`, as times do, are left out.
    """
    seen = [_run(name, place, bin, "pasture-python", image)]
    if place in COMPARED:
        seen += (_run(name, place, bin, "python", image) for _ in range(2))
    said = [line for line in seen[0].stderr.splitlines() if line.startswith("pasture-python: ")]
    # A terminal has both streams.
    said += [line for line in seen[0].stdout.splitlines() if line.startswith("pasture-python: ")]
    lasts = said[-1].strip() if said else f"status {seen[0].returncode}"
    why = "" if STARTED in lasts else lasts.split(": ", 2)[-1]
    outs = [
        [line for line in one.stdout.splitlines() if "pasture-python: " not in line] for one in seen
    ]
    if outs[1:2] != outs[2:]:
        outs = [[re.sub(r"\d+", "0", line) for line in out] for out in outs]
    return Start(why, (seen[0].returncode, outs[0]) == (seen[-1].returncode, outs[-1]))


def started_here(name: str, place: Place, bin: Path) -> Start:
    """The second start behind one line: an image is made where none fits."""
    owner = OTHER_ID if place.prefix == OTHER_USER else 0
    folder = bin.parent / f"{_digest()}-images-{owner}"
    folder.mkdir(exist_ok=True)
    if owner:
        os.chown(folder, owner, owner)
    allowed = tuple(f"--allow={kind}" for kind in STACKS[name].allow)
    words = ("image", "build", "-o", f"{folder}/", "--preload", STACKS[name].preload, *allowed)
    made = _ran(place, (str(bin / "pasture"), *words), folder)
    start(name, place, bin, folder)
    found = start(name, place, bin, folder)
    if found.why and made.returncode:
        said = (made.stderr or made.stdout).replace(f"{FOLDER}/", "").strip().splitlines()
        return Start(next((one for one in said if "error: " in one), said[-1])[:200], found.is_same)
    return found


def _run(
    name: str, place: Place, bin: Path, program: str, image: Path
) -> subprocess.CompletedProcess[str]:
    return _ran(place, (str(bin / program), *STACKS[name].words), image)


def _ran(place: Place, words: tuple[str, ...], image: Path) -> subprocess.CompletedProcess[str]:
    left_out = SHELL if place.without == "*" else place.without.split()
    environ = {
        **{n: v for n, v in SHELL.items() if n not in left_out},
        **place.given,
        "PASTURE_IMAGE": f"{image}/" if image.is_dir() else str(image),
        "PASTURE_IMAGE_VERBOSE": "1",
    }
    (scratch := FOLDER / "root").mkdir(exist_ok=True)
    prefix = tuple(word.replace("{scratch}", str(scratch)) for word in place.prefix)
    if prefix[:1] == ("script",):
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        words = (quoted, "/dev/null")
    return subprocess.run(
        [*prefix, *words],
        env=environ, cwd=place.folder, capture_output=True, text=True, timeout=TIMEOUT_S,
        check=False, stdin=subprocess.DEVNULL, errors="replace",
    )  # fmt: skip


Found = Mapping[tuple[str, str], Start]


def page(once: Found, here: Found, failed: Mapping[str, str]) -> str:
    """The table, and the reasons."""
    stacks = [name for name in STACKS if any(stack == name for stack, _ in once)]
    rows: dict[tuple[str, str], list[str]] = {}
    for place in PLACES:
        missed = _missed(stacks, place, once), _missed(stacks, place, here)
        rows.setdefault(missed, []).append(place)
    allowed = (f"{name}: {', '.join(STACKS[name].allow)}" for name in stacks if STACKS[name].allow)
    differ = [
        f"{stack}, {place}"
        for found in (once, here)
        for (stack, place), one in found.items()
        if not one.is_same
    ]
    return "\n".join((
        "# Where images serve",
        "",
        f"`make bench-hits` starts programs of {len(stacks)} stacks in {len(PLACES)} places, and",
        f"writes this page: {'; '.join(stacks)}.",
        "",
        "- Out of an [image](../image.md) built once, in a shell, without options:",
        f"  {_share(once)}.",
        "- The second start behind `pasture image build -o FOLDER/` in each place:",
        f"  {_share(here)}. Allowed: {'; '.join(allowed) or 'nothing'}.",
        "",
        table(
            ("places", "`python` ran: built once", "built in each place"),
            (("; ".join(places), *missed) for missed, places in rows.items()),
        ),
        "",
        "Why `python` ran, and how often; a name is that of a variable that differs:",
        "",
        *_reasons(stacks, "built once", once),
        *_reasons(stacks, "built in each place", here),
        *(f"- {stack} has no image without options: {why}" for stack, why in failed.items()),
        "",
        "Output or status differ from `python`'s in: " + (", ".join(differ) or "none") + ".",
        "",
    ))  # fmt: skip


def _share(found: Found) -> str:
    served = sum(not one.why for one in found.values())
    percent = 100 * served / max(len(found), 1)
    return f"**{served} of {len(found)} starts were served** ({percent:.1f} %)"


def _reasons(stacks: Iterable[str], column: str, found: Found) -> list[str]:
    by_stack = {
        s: Counter(one.why for (stack, _), one in found.items() if stack == s) for s in stacks
    }
    return [f"- {stack}, {column}: {listed}" for stack, why in by_stack.items()
            if (listed := _listed(why)) and NO_IMAGE not in why]  # fmt: skip


def _listed(reasons: Counter[str]) -> str:
    """Why `python` ran, the most frequent first, each with its number."""
    return ", ".join(
        f"{why.removeprefix(f'{VARIABLE}: ')} ({times})"
        for why, times in reasons.most_common()
        if why
    )


def _missed(stacks: Iterable[str], place: str, found: Mapping[tuple[str, str], Start]) -> str:
    """The stacks whose image did not serve in a place."""
    starts = ((stack, found.get((stack, place))) for stack in stacks)
    words = (f"{stack} (not tried)" if one is None else stack
             for stack, one in starts if one is None or one.why)  # fmt: skip
    return "; ".join(words)


@click.command()
@click.option("--only", multiple=True, metavar="STACK", help="These stacks; repeat for more.")
def main(only: tuple[str, ...]) -> None:
    """Start programs in many places out of images that were built in one."""
    store: Store[Start] = Store(FOLDER / "starts", Start)
    failed: dict[str, str] = {}
    for name in only or STACKS:
        try:
            bin = environment(name)
        except click.ClickException as error:
            click.echo(f"{name} is not installed here: {error.message[:100]}")
            continue
        if why := built(name, bin):
            failed[name] = why
        image = bin.parent / f"{_digest()}.img"
        for number, (where, place) in enumerate(PLACES.items()):
            key = f"{name}-{number}".replace(", ", "-")
            if store.kept(key, [where, _digest()]) is None:
                one = Start(NO_IMAGE, True) if why else start(name, place, bin, image)
                store.keep(key, one, [where, _digest()])
                here = started_here(name, place, bin)
                store.keep(f"{key}-here", here, [where, _digest()])
                click.echo(f"{name}, {where}: {one.why or 'served'}; {here.why or 'served'}")
        for folder in bin.parent.glob(f"{_digest()}-images-*"):
            shutil.rmtree(folder)  # of torch 4 GB
    once, here_too = (
        {
            (name, where): kept
            for name in STACKS
            for number, where in enumerate(PLACES)
            if (kept := store.kept(f"{name}-{number}{end}".replace(", ", "-"), [where, _digest()]))
        }
        for end in ("", "-here")
    )
    replace(PAGE, page(once, here_too, failed))
    click.echo(f"{PAGE.relative_to(REPOSITORY)}: {len(once)} starts")


if __name__ == "__main__":
    main()
