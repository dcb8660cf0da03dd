"""A WSGI application whose worker, once it becomes a mold, attacks its arbiter.

The file `attack` says how, and may name the pid of a process that is none of the server's. The
attacker runs in the process, so it finds the channel and may exchange any function.
"""

import gc
import json
import os
import socket
import time

import pasture
from pasture.refork import mold
from pasture.refork.channel import Channel

LOADED_IN = os.getpid()


def app(environ, start_response):
    body = json.dumps({"pid": os.getpid()}).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pasture.before_fork
def become_an_attacker():
    try:
        with open("attack") as file:
            name, _, words = file.read().strip().partition(" ")
    except FileNotFoundError:
        return
    if os.getpid() != LOADED_IN:
        ATTACKS[name](*words.split())


def channels():
    """Those that are open: a mold also has what its own parents have closed."""
    found = [one for one in gc.get_objects() if isinstance(one, Channel)]
    return [one._socket for one in found if one.fileno() >= 0]


def say(*messages, files=()):
    """Send to the arbiter, and leave nothing to the mold's own code."""
    for end in channels():
        for message in messages:
            socket.send_fds(end, [message], files)
    time.sleep(60)


def flood():
    """Each message alone is no answer: after a refusal the arbiter may close before the next."""
    while True:
        for end in channels():
            end.send(b'["spawned", {}]')


def name_a_stranger(pid):
    """The worker that the mold forks says that it is another process."""

    def introduce(channel, server):
        while os.getppid() != server:
            time.sleep(0.001)
        channel.send("spawned", pid=int(pid))
        channel.receive(5)

    mold._introduce = introduce


def answer_itself():
    """The mold forks nothing and says itself what a new worker says."""

    def fork():
        for end in channels():
            end.send(b'["spawned", {}]')
        return False

    mold.fork_orphan = fork


def answer_by_a_grandchild():
    """What answers is no child of the arbiter's."""

    def fork():
        if os.fork() == 0:
            for end in channels():
                end.send(b'["spawned", {}]')
            time.sleep(60)
            os._exit(0)
        return False

    mold.fork_orphan = fork


SEALED = b'["sealed", {"report": "sealed"}]'

ATTACKS = {
    "poor": lambda: say(b'["sealed", {}]'),
    "files": lambda: say(b'["refused", {"why": "files"}]', files=[0] * 200),
    "twice": lambda: say(SEALED, SEALED),
    "flood": flood,
    "stranger": name_a_stranger,
    "itself": answer_itself,
    "grandchild": answer_by_a_grandchild,
}
