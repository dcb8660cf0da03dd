"""boto3: a client of S3 that keeps its connections."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import boto3

client: Any = None


def start() -> None:
    global client
    endpoint = f"http://127.0.0.1:{os.environ['SINK_PORT']}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="eu-west-1")


def report(mark: Callable[[str], str]) -> None:
    client.put_object(Bucket="marks", Key=mark("object"), Body=b"")
