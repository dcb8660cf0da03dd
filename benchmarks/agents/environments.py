"""Environments of `make agents`: one for an agent and an interpreter, below build/agents.

They hold what agents.toml pins, gunicorn, uvicorn and this tree's pasture, editable.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.agents.catalog import Agent
from benchmarks.uv import REPOSITORY, find_interpreter, run, uv

BUILD = REPOSITORY / "build" / "agents"


def prepare(agent: Agent, minor: str) -> Path:
    """The Python of the agent's environment, which is made where it is missing.

    Raises:
        click.ClickException: there is no such interpreter, or no wheel for it.
    """
    wanted = [*agent.servers, *agent.packages]
    # Agents that differ in how they are started share an environment.
    first = agent.packages[0] if agent.packages else "none"
    folder = BUILD / "environments" / f"{first.partition('==')[0]}-{minor}"
    python, held = folder / "bin" / "python", folder / "held.txt"
    if held.exists() and held.read_text().split() == wanted and python.exists():
        return python
    uv("venv", "--quiet", "--clear", "--python", find_interpreter(minor), folder)
    newest = ["--exclude-newer", agent.newest, "--only-binary", ":all:", "--no-binary", "pasture"]
    uv("pip", "install", "--quiet", "--python", python, *newest, "-e", ".", *wanted)
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
