"""The warm-up of a server's parent, as its settings say. Servers that serve no requests lack it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pasture.servers import restart
from pasture.servers.settings import ServerSettings
from pasture.warmup.warmup import WarmUpReport, warm_up


def warm_up_as_set(
    application: Callable[..., Any], settings: ServerSettings, **named: Any
) -> WarmUpReport:
    """Serve the settings' requests, within their limits of time.

    Args:
        named: of `pasture.warm_up`, besides.
    """
    if restart.is_without_warm_up():
        host, headers = named.get("host", "localhost"), settings.warm_up.headers
        why = str(restart.earlier)
        return WarmUpReport(refused=why, application=application, headers=headers, host=host)
    return warm_up(
        application,
        settings.warm_up.requests,
        headers=settings.warm_up.headers,
        timeout_s=settings.warm_timeout_s,
        total_timeout_s=settings.warm_total_timeout_s,
        lifespan=settings.lifespan_warms,
        **named,
    )
