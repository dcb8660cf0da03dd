"""Environments of `make agents`: one for an agent and an interpreter, below build/agents.

They hold what agents.toml pins, gunicorn, uvicorn, and pasture out of a wheel of this tree, which
is built once for an interpreter.
"""

from __future__ import annotations

from pathlib import Path

from matrix.agents.catalog import Agent
from matrix.environments import REPOSITORY, build_pasture, find_interpreter, run, uv

BUILD = REPOSITORY / "build" / "agents"


def prepare(agent: Agent, minor: str, begin: str = "") -> Path:
    """The Python of the agent's environment, which is made where it is missing.

    Args:
        begin: of the name of its folder.

    Raises:
        click.ClickException: there is no such interpreter, or no wheel for it.
    """
    wheel = build_pasture(minor)
    # Agents that differ in how they are started share an environment.
    first = agent.packages[0] if agent.packages else "none"
    folder = BUILD / "environments" / f"{begin}{first.partition('==')[0]}-{minor}"
    python, held = folder / "bin" / "python", folder / "held.txt"
    packages = [*agent.servers, *agent.packages]
    wanted = [str(wheel), *packages]
    holds = held.read_text().split() if held.exists() and python.exists() else []
    if holds == wanted:
        return python
    pip = ("pip", "install", "--quiet", "--python", str(python))
    if holds[1:] == packages:
        uv(*pip, "--no-deps", "--reinstall-package", "pasture", wheel)
    else:
        uv("venv", "--quiet", "--clear", "--python", find_interpreter(minor), folder)
        uv(*pip, "--exclude-newer", agent.newest, "--only-binary", ":all:", *wanted)
    held.write_text("\n".join(wanted) + "\n")
    return python


def certificate() -> Path:
    """A certificate of the loopback with its key, for agents that speak nothing but TLS."""
    path = BUILD / "certificate.pem"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        run(
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", path.with_suffix(".crt")),
        )
        path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
    return path
