"""What `kafka_client` sends to: `python -m matrix.agents.recipes.kafka_broker FOLDER`.

The broker that librdkafka brings for tests, and a consumer of it. Writes its address into
FOLDER/address, and each message into FOLDER/arrived, a line each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer


def serve(folder: Path) -> None:
    broker = Producer({"test.mock.num.brokers": 1})
    found = next(iter(broker.list_topics(timeout=30).brokers.values()))
    address = f"{found.host}:{found.port}"
    # The topic exists before there is a client, so that none has to wait for it.
    broker.produce("marks", b"first")
    broker.flush(30)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "sink",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["marks"])
    (folder / "address").write_text(address)
    with (folder / "arrived").open("ab", buffering=0) as arrived:
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                arrived.write(message.value() + b"\n")


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
