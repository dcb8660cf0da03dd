"""An application whose client has a thread with an event loop that makes all its calls, as ZEO's.

The client is made at import. No forked worker has the thread, and each call waits for it for ever.
"""

import asyncio
import concurrent.futures
import os
import threading

PATH = os.environ.get("LOST_AT", "/")


class Client:
    def __init__(self):
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="client", daemon=True).start()

    def call(self, method):
        async def answer():
            return method()

        return asyncio.run_coroutine_threadsafe(answer(), self._loop)


client = Client()


def page(path):
    """The future of an answer, with its status."""
    if path == PATH:
        return client.call(lambda: "200 OK")
    done = concurrent.futures.Future()
    done.set_result("404 Not Found")
    return done


def app(environ, start_response):
    start_response(page(environ["PATH_INFO"]).result(), [("Content-Type", "text/plain")])
    return [b"%d" % os.getpid()]


application = app


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})
        return
    status = int((await asyncio.wrap_future(page(scope["path"])))[:3])
    await send({"type": "http.response.start", "status": status})
    await send({"type": "http.response.body", "body": b"%d" % os.getpid()})
