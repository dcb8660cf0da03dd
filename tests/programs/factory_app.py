"""A factory of applications, and a class of gunicorn's workers that calls it, as aiohttp's does."""

import asyncio
import os
import select

from gunicorn.workers.base import Worker


async def make(*arguments, **named):
    """What pulpcore's `server` looks like: it begins a heartbeat, and takes what it is given."""
    print(f"made in {os.getpid()} of {len(arguments)} arguments", flush=True)
    return b"HTTP/1.0 200 OK\r\n\r\nmade"


class FactoryWorker(Worker):
    def run(self):
        print(f"runs in {os.getpid()}", flush=True)
        answer = asyncio.run(self.wsgi())
        while self.alive:
            self.notify()
            for listener in select.select(self.sockets, [], [], 0.1)[0]:
                self.serve(listener, answer)

    def serve(self, listener, answer):
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        with client:
            client.settimeout(5)
            client.recv(1 << 16)
            client.sendall(answer)
