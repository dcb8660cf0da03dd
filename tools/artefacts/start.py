"""Types the commands of docs/start.md, as the built site shows them, in a fresh root of Debian.

The root has nothing of this machine but its certificates and the wheels of pasture, which are in no
index yet: pip finds them by PIP_FIND_LINKS. Prints how long each step took. Needs root,
debootstrap, a mirror, an index, and the site: `make test-start`.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "site" / "docs" / "start.html"
RELEASE, MINOR = "trixie", "3.13"
MAX_S = 600
BLOCK = re.compile(
    r'<div class="highlight">(?:<span class="filename">(.*?)</span>)?<pre>(.*?)</pre>', re.DOTALL
)
CERTIFICATES = "/root/certificates.crt"
HOST_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive", "PIP_FIND_LINKS": "/wheels",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CERT": CERTIFICATES, "SSL_CERT_FILE": CERTIFICATES,
}  # fmt: skip


def blocks(page: str) -> list[tuple[str, str]]:
    """Name and text of each file on the page, and each command, which has no name: in order."""
    return [
        (name, html.unescape(re.sub(r"<[^>]+>", "", text))) for name, text in BLOCK.findall(page)
    ]


def make_root(root: Path) -> None:
    mirror = run([ROOT / "tools" / "debian-mirror"]).strip()
    run(["debootstrap", "--variant=minbase", "--include=ca-certificates", RELEASE, root, mirror])
    (root / "etc/resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
    certificates = Path(os.environ.get("SSL_CERT_FILE", HOST_CERTIFICATES))
    (root / CERTIFICATES.lstrip("/")).write_bytes(certificates.read_bytes())
    settings = run([sys.executable, "-m", "pip", "config", "list"])
    index = re.search(r"index-url='(.*)'", settings)
    if index:
        (root / "etc/pip.conf").write_text(f"[global]\nindex-url = {index[1]}\n")
    python = run([ROOT / "tools" / "interpreters", "path", MINOR]).strip()
    for package in (".", "packages/auto"):
        uv = [ROOT / "tools" / "uv", "build", "--quiet", "--wheel", "--python", python]
        run([*uv, "--out-dir", root / "wheels", package], cwd=ROOT)


def run(command: list[str | Path], cwd: Path | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


def follow(root: Path, steps: list[tuple[str, str]]) -> float:
    """Type the steps in one shell; seconds that they took."""
    mark = "start: step {} took"
    script = ["set -e", "mkdir -p /service", "cd /service"]
    for number, (name, text) in enumerate(steps, start=1):
        if name:
            script += [f"cat >{name} <<'END OF FILE'", text.rstrip("\n"), "END OF FILE"]
        else:
            script += [text, f'echo "{mark.format(number)} $SECONDS s"; SECONDS=0']
    begin = time.monotonic()
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc=" + str(root / "proc")]
    command += ["--kill-child", "chroot", str(root), "env", "-i", *variables, "bash"]
    done = subprocess.run(command, input="\n".join(script), text=True, timeout=2 * MAX_S)
    if done.returncode:
        for log in sorted(root.glob("service/*.log")):
            print(f"--- {log.name}\n{log.read_text()}", file=sys.stderr)
        sys.exit(f"start: the page's commands end with {done.returncode}")
    return time.monotonic() - begin


def main() -> None:
    steps = blocks(PAGE.read_text(encoding="utf-8"))
    if len(steps) < 5:
        sys.exit(f"start: {PAGE} shows {len(steps)} blocks of code")
    with tempfile.TemporaryDirectory(prefix="pasture-start-") as folder:
        root = Path(folder)
        make_root(root)
        took_s = follow(root, steps)
    print(f"start: {len(steps)} blocks, {took_s:.0f} s, all from the page")
    if took_s > MAX_S:
        sys.exit(f"start: that is more than {MAX_S} s")


if __name__ == "__main__":
    main()
