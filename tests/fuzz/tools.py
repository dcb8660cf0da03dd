"""Tools that watch code run, switched on and off: tracers, profilers, sys.monitoring."""

from __future__ import annotations

import cProfile
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_profile = cProfile.Profile()
_TOOL = 3


def _trace(frame: FrameType, event: str, argument: Any) -> Any:
    if sys.version_info >= (3, 13):  # 3.12.1 itself crashes where one thread then stops tracing
        frame.f_trace_opcodes = len(frame.f_code.co_name) % 4 == 0
    return _trace


def _ignore(*_: object) -> None:
    pass


def trace() -> None:
    sys.settrace(_trace)


def trace_all_threads() -> None:
    threading.settrace(_trace)
    if sys.version_info >= (3, 12):
        threading.settrace_all_threads(_trace)


def no_trace() -> None:
    threading.settrace(None)
    sys.settrace(None)


def profile() -> None:
    sys.setprofile(_ignore)


def no_profile() -> None:
    sys.setprofile(None)


def begin_profile() -> None:
    sys.setprofile(None)
    _profile.enable()


def end_profile() -> None:
    _profile.disable()
    _profile.clear()


TOOLS: list[Callable[[], None]] = [
    *(trace, trace_all_threads, no_trace, no_trace),
    *(profile, no_profile, begin_profile, end_profile),
]

if sys.version_info >= (3, 12):
    monitoring = sys.monitoring

    def _disable(*_: object) -> Any:
        return monitoring.DISABLE

    def monitor() -> None:
        monitoring.use_tool_id(_TOOL, "fuzz")
        events = monitoring.events
        for event in (events.PY_START, events.LINE, events.INSTRUCTION, events.CALL, events.BRANCH):
            monitoring.register_callback(_TOOL, event, _ignore)
        monitoring.register_callback(_TOOL, events.PY_RETURN, _disable)
        monitoring.set_events(_TOOL, events.PY_START | events.LINE | events.CALL | events.PY_RETURN)

    def monitor_locally() -> None:
        if monitoring.get_tool(_TOOL) is None:
            monitoring.use_tool_id(_TOOL, "fuzz")
        for function in (monitor, _trace, _ignore):
            local = monitoring.events.INSTRUCTION | monitoring.events.LINE
            monitoring.set_local_events(_TOOL, function.__code__, local)

    def monitor_no_more() -> None:
        if monitoring.get_tool(_TOOL) is not None:
            monitoring.set_events(_TOOL, 0)
            monitoring.free_tool_id(_TOOL)

    TOOLS += [monitor, monitor_locally, monitor_no_more, monitor_no_more, monitoring.restart_events]
