"""grpcio: a channel, and a call in each request."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import grpc

call: Any = None


def start() -> None:
    global call
    call = grpc.insecure_channel(os.environ["HELPER_ADDRESS"]).unary_unary("/marks/Report")


def report(mark: Callable[[str], str]) -> None:
    call(mark("call").encode(), timeout=5)
