"""The steps that a policy takes before the application is imported."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

from pasture.sealing import gc_settings
from pasture.sealing.policy import LoadingStep, Policy

_STEPS: Mapping[LoadingStep, Callable[[], None]] = {
    "gc-off": gc.disable,
    "gc-threshold-0": gc_settings.never_collect,
}


def begin_loading(policy: Policy) -> None:
    """Take the loading steps of a policy, in the process that will fork.

    Call it before the application is imported. Safe with other threads running.
    """
    gc_settings.remember_thresholds()
    for step in policy.loading:
        _STEPS[step]()
