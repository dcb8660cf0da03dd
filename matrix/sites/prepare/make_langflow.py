"""A database with its tables and starter projects: workers that start at once make them side by side."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

START_S = 600.0

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
langflow = Path(sys.executable).with_name("langflow")
serve = (langflow, "run", "--host", "127.0.0.1", "--port", f"{port}", "--workers", "1")
server = subprocess.Popen([*serve, "--backend-only", "--no-open-browser"])
deadline = time.monotonic() + START_S
while time.monotonic() < deadline and server.poll() is None:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10)
        break
    except (urllib.error.URLError, OSError):
        time.sleep(1)
is_up = server.poll() is None and time.monotonic() < deadline
server.terminate()
server.wait()
sys.exit(0 if is_up else 1)
