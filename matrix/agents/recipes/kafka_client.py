"""confluent-kafka: a producer, whose library sends in threads of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

producer: Any = None


def start() -> None:
    global producer
    producer = Producer({"bootstrap.servers": os.environ["HELPER_ADDRESS"], "linger.ms": 50})


def report(mark: Callable[[str], str]) -> None:
    producer.produce("marks", mark("message"))
    producer.poll(0)
