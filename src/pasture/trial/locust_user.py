"""The load of `pasture try` without a locustfile: walks the list of URLs in order.

Runs in the load generator's process and imports nothing of pasture. All users take their
next request from one counter, so that a run of N requests sends exactly the same list
under every policy, whatever the number of users.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

from locust import FastHttpUser, task

_SETTINGS = json.loads(Path(os.environ["PASTURE_LOAD"]).read_text(encoding="utf-8"))
_WALK = itertools.cycle(_SETTINGS["walk"])


class Walker(FastHttpUser):
    """Sends the next request of the list as soon as the last one was answered."""

    @task
    def walk(self) -> None:
        method, path, headers = next(_WALK)
        self.client.request(method, path, headers=headers, allow_redirects=False)
