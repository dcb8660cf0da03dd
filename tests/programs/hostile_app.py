"""An application whose pages do to their process what no page should, as WSGI and ASGI."""

import asyncio
import os
import signal
import time
import urllib.request


def hang():
    time.sleep(600)


def stubborn():
    while True:
        try:
            time.sleep(600)
        except Exception:
            pass


def call_itself():
    """Of an address at which no process accepts while the server warms up."""
    address = os.environ["HERD_ADDRESS"].format(port=_port())
    urllib.request.urlopen(f"http://{address}/who", timeout=600).read()


def _port():
    """Of the server: the only listener of this process."""
    inodes = {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_open(n)}
    with open("/proc/self/net/tcp") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                return int(words[1].rpartition(":")[2], 16)
    raise LookupError("no listener")


def _is_open(number):
    return os.path.lexists(f"/proc/self/fd/{number}")


def handlers():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def cancelled():
    raise asyncio.CancelledError("this page is broken on purpose")


def fork():
    os.fork()


def who():
    return f"{os.getpid()}"


PAGES = {
    f"/{page.__name__}": page
    for page in (hang, stubborn, call_itself, handlers, cancelled, fork, who)
}


def app(environ, start_response):
    body = f"{PAGES[environ['PATH_INFO']]()}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
