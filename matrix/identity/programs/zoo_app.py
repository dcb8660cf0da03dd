"""The zoo in a web application, for WSGI and ASGI. `/take` writes; any other page only serves."""

import time

import zoo


def answer(path):
    if path != "/take":
        zoo.serve()
        for one in zoo.CACHES.values():
            one()
        return b"served"
    pid = zoo.write()
    time.sleep(0.05)  # the next request is another worker's
    return str(pid).encode()


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer(environ["PATH_INFO"])]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = answer(scope["path"])
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
