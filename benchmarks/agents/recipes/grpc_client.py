"""grpcio: a channel, and a call in each request."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import grpc

tell: Any = None


def start() -> None:
    global tell
    tell = grpc.insecure_channel(os.environ["HELPER_ADDRESS"]).unary_unary("/marks/Tell")


def report(mark: Callable[[str], str]) -> None:
    tell(mark("call").encode(), timeout=5)
