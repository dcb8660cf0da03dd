"""Programs of torch, transformers and spaCy out of an image, in the terminals of a developer.

Processor time from start to end, of the process and all that it waited for. The image is built in
the first terminal. Environments are those of `benchmarks.hits`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from benchmarks import hits

PROGRAMS = {
    "torch": "import torch",
    "transformers": "from transformers import LlamaConfig, LlamaForCausalLM",
    "spaCy": "import spacy",
}
TERMINALS = 10
TERMINAL = """\
COLORTERM=truecolor
DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus
DIRENV_DIFF=eJxirGFIU8hLzE21UihJLS4BAwAA__8r{n}
DIRENV_DIR=-/root/meadow-{n}
EDITOR=vim
GIT_AUTHOR_NAME=Ada
GIT_EDITOR=vim
HOME=/root
HOSTNAME=workstation
LANG=en_US.UTF-8
LESSCLOSE=/usr/bin/lesspipe %s %s
LESSOPEN=| /usr/bin/lesspipe %s
LOGNAME=root
LS_COLORS=rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:*.tar=01;31
MAIL=/var/mail/root
NVM_BIN=/root/.nvm/versions/node/v24.1.0/bin
NVM_DIR=/root/.nvm
OLDPWD=/root/meadow-{n}/src
PAGER=less
PATH={bin}:/root/.nvm/versions/node/v24.1.0/bin:/root/.local/bin:/usr/local/bin:/usr/bin:/bin
PWD=/
SHELL=/bin/bash
SHLVL={n}
SSH_AUTH_SOCK=/tmp/ssh-XXXX{n}/agent.{n}
SSH_CLIENT=10.0.0.2 5100{n} 22
SSH_CONNECTION=10.0.0.2 5100{n} 10.0.0.1 22
SSH_TTY=/dev/pts/{n}
TERM=xterm-256color
TMUX=/tmp/tmux-0/default,70{n},0
TMUX_PANE=%{n}
USER=root
VIRTUAL_ENV={bin}/..
VIRTUAL_ENV_PROMPT=meadow-{n}
XDG_DATA_DIRS=/usr/local/share:/usr/share
XDG_RUNTIME_DIR=/run/user/0
XDG_SESSION_CLASS=user
XDG_SESSION_ID={n}
XDG_SESSION_TYPE=tty
npm_config_prefix=/root/.npm-packages
_=/usr/bin/env
"""
"""40 variables."""


def terminal(number: int, bin: Path) -> dict[str, str]:
    """The variables of one of a developer's terminals, with a virtual environment active."""
    lines = TERMINAL.replace("{n}", f"{number}").replace("{bin}", f"{bin}").splitlines()
    return dict(line.split("=", 1) for line in lines)


def processor_s(command: Sequence[object], environ: Mapping[str, str]) -> tuple[float, str]:
    """Seconds of processors until a program has ended, and what it wrote to standard error."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, env=environ, cwd="/", stderr=subprocess.PIPE, text=True) as one:
        assert one.stderr is not None
        said = one.stderr.read()
        _, status, used = os.wait4(one.pid, 0)
        one.returncode = os.waitstatus_to_exitcode(status)
    if one.returncode != 0:
        raise click.ClickException(said)
    return used.ru_utime + used.ru_stime, said


def show(name: str, folder: Path, rounds: int = TERMINALS) -> None:
    """Starts of one program by turns, each pair in a terminal of its own."""
    bin = hits.environment(name)
    image = folder / f"{name}.img"
    build = (bin / "pasture", "image", "build", "-o", image, "--preload", hits.STACKS[name].preload)
    processor_s(build, terminal(1, bin))
    pairs, reasons = [], Counter[str]()
    for number in range(1, rounds + 1):
        environ = terminal(number, bin)
        by_python, _ = processor_s((bin / "python", "-c", PROGRAMS[name]), environ)
        environ |= {"PASTURE_IMAGE": str(image), "PASTURE_IMAGE_VERBOSE": "1"}
        by_image, said = processor_s((bin / "pasture-python", "-c", PROGRAMS[name]), environ)
        pairs.append((by_python, by_image))
        reasons["" if hits.STARTED in said else said.strip()] += 1
    medians = map(statistics.median, zip(*pairs, strict=True))
    ratios = sorted(image / python for python, image in pairs)
    click.echo(
        f"{name:13} python {next(medians) * 1e3:6.0f} ms of processors  image "
        f"{next(medians) * 1e3:5.0f} ms  ratio {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f}-{ratios[-1]:.3f})  served {reasons.pop('', 0)} of {rounds}"
    )
    for why, times in reasons.items():
        click.echo(f"  {why} ({times})")
