"""LiteLLM's proxy, which notes in a class that it shuts down, and then calls itself unhealthy.

A warm-up ends its lifespan in the parent. Without this each worker would inherit the note.
"""

import os

from litellm.proxy.proxy_server import app
from litellm.proxy.shutdown.graceful_shutdown_manager import GracefulShutdownManager

os.register_at_fork(after_in_child=GracefulShutdownManager.reset)

__all__ = ["app"]
