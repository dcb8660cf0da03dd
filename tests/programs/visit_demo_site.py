"""Requests paths of the demonstration site through its WSGI application.

    visit_demo_site.py HEADERS_FILE < paths

Writes one JSON object a line: path, status and body. Runs in a
process of its own, because Django's settings are the process's.
"""

import io
import json
import sys
from pathlib import Path
from urllib.parse import unquote

from meadow.wsgi import application


def read_headers(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    return {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in pairs}


def visit(target: str, headers: dict[str, str]) -> dict[str, object]:
    path, _, query = target.partition("?")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": unquote(path),
        "QUERY_STRING": query,
        "SCRIPT_NAME": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        **headers,
    }
    statuses: list[str] = []
    response = application(environ, lambda status, *_: statuses.append(status))
    try:
        body = b"".join(response)
    finally:
        response.close()
    return {
        "path": target,
        "status": int(statuses[0].split()[0]),
        "body": body.decode(),
    }


def main() -> None:
    headers = read_headers(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(visit(line.strip(), headers)))


if __name__ == "__main__":
    main()
