"""The warm-up of a server's parent, by its settings. Servers without requests lack it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pasture.log_lines import WARM_UP_END, WARM_UP_STEP, Log, write_to_log
from pasture.serving.settings import ServerSettings

if TYPE_CHECKING:
    from pasture.serving.lifespan import SharedLifespan
    from pasture.warmup.warmup import Answer, WarmUpReport

_ANY = ("", "0.0.0.0", "::")


def host_at(address: str | None, port: int | str) -> str:
    """The `Host` of a request from this machine to an address, IPv6 in brackets or not."""
    name = (address or "").removeprefix("[").removesuffix("]")
    if name in _ANY:
        name = "localhost"
    # An interface (`%eth0`) is not part of the header.
    return f"[{name.partition('%')[0]}]:{port}" if ":" in name else f"{name}:{port}"


def warm_up_as_set(
    application: Callable[..., Any],
    settings: ServerSettings,
    *,
    log: Log = write_to_log,
    shared: SharedLifespan | None = None,
    **named: Any,
) -> WarmUpReport:
    """Serve the settings' requests, with a log line before each and one at the end.

    `shared` is the application's lifespan, where it has been started once for all workers; `named`
    are arguments of `pasture.warm_up`.
    """
    from pasture.warmup.warmup import warm_up  # imported now: it is sealed in

    assert settings.warm_up is not None

    def log_answer(answer: Answer) -> None:  # the seal's report warns of those that failed
        log(logging.DEBUG, WARM_UP_STEP % f"{answer} in {answer.seconds:.3f} s")

    report = warm_up(
        application,
        settings.warm_up.requests,
        headers=settings.warm_up.headers,
        total_timeout_s=settings.warm_total_timeout_s,
        lifespan=settings.lifespan == "warm-up",
        on_start=lambda name: log(logging.INFO, WARM_UP_STEP % name),
        on_answer=log_answer,
        session=None if shared is None else shared.session,
        **named,
    )
    log(logging.INFO, WARM_UP_END % tuple(report.counts.values()))
    if shared is not None:  # a request may have opened a hazard of a fork
        shared.share(strict=settings.strict)
    return report
