"""A server that gives each client its own words back: lines, HTTP, XML-RPC, Redis' protocol."""

from __future__ import annotations

import socketserver
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Echo(socketserver.StreamRequestHandler):
    """One connection, by the protocol of each of its lines."""

    def handle(self) -> None:
        for line in self.rfile:
            first = line.split()
            if line.startswith((b"GET ", b"POST ")):
                self._http(first[1])
            elif line.startswith(b"*"):
                words = [self._bulk() for _ in range(int(line[1:]))]
                last = words[-1]
                echoed = b"$%d\r\n%s\r\n" % (len(last), last)
                self.wfile.write(echoed if words[0].upper() == b"ECHO" else b"+OK\r\n")
            else:
                self.wfile.write(line)

    def _bulk(self) -> bytes:
        size = int(self.rfile.readline()[1:])
        return self.rfile.read(size + 2)[:size]

    def _http(self, path: bytes) -> None:
        size = 0
        while header := self.rfile.readline().strip().lower():
            if header.startswith(b"content-length:"):
                size = int(header.split(b":")[1])
        if size:
            arguments, _ = xmlrpc.client.loads(self.rfile.read(size).decode())
            path = xmlrpc.client.dumps((arguments[0],), methodresponse=True).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n"
        self.wfile.write(head % len(path) + path)


@contextmanager
def echoing(path: Path) -> Iterator[int]:
    """Listen on loopback and on a socket in the file system; gives the port."""
    tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
    with tcp, socketserver.ThreadingUnixStreamServer(str(path), Echo) as unix:
        for server in (tcp, unix):
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tcp.server_address[1]
        tcp.shutdown()
        unix.shutdown()
