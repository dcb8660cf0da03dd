"""nginx in front of a server: one process, its files in a folder of the part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pasture_lab.engine import requirements
from pasture_lab.engine.experiment import Bench
from pasture_lab.processes.program import environment
from pasture_tools.launch.ports import LOOPBACK, free_port, listens
from pasture_tools.launch.session import Group

_START_S = 20.0
_TIMEOUT_S = 120

_CONFIGURATION = """\
daemon off; master_process off; {user}
pid {dir}/nginx.pid; error_log {dir}/nginx-error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{
        listen {address}:{port};
        location / {{ {forward} }}
    }}
}}
"""
_UWSGI = (
    "uwsgi_pass {to}; uwsgi_read_timeout {timeout}s; uwsgi_param REQUEST_METHOD $request_method; "
    "uwsgi_param PATH_INFO $document_uri; uwsgi_param QUERY_STRING $query_string; "
    "uwsgi_param SERVER_PROTOCOL $server_protocol; uwsgi_param SERVER_NAME $server_name; "
    "uwsgi_param SERVER_PORT $server_port; uwsgi_param HTTP_HOST $host; "
    "uwsgi_param REMOTE_ADDR $remote_addr;"
)
_HTTP = "proxy_pass http://{to}; proxy_read_timeout {timeout}s;"


@contextmanager
def in_front(bench: Bench, server_port: int, *, speaks_uwsgi: bool) -> Iterator[int]:
    """Start nginx before a server; gives nginx's port.

    Raises:
        NotMeasurable: there is no nginx.
        ServerFailed: it does not come up.
    """
    program, port, folder = requirements.find("nginx"), free_port(), bench.directory
    forward = (_UWSGI if speaks_uwsgi else _HTTP).format(
        to=f"{LOOPBACK}:{server_port}", timeout=_TIMEOUT_S
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            dir=folder,
            user="user root;" if os.getuid() == 0 else "",
            address=LOOPBACK,
            port=port,
            forward=forward,
        )
    )
    arguments = [program, "-e", str(folder / "nginx-error.log"), "-c", str(configuration)]
    with Group(arguments, log=bench.log("nginx"), env=environment()) as group:
        group.wait_for(
            lambda: listens(port),
            "nginx did not come up",
            timeout_s=_START_S,
            pause=bench.pause,
        )
        yield port
