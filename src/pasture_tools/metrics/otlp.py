"""The figures of one server, sent to a collector of OpenTelemetry's.

The metrics are those of `exporter`, under the same names: it passes its families to OpenTelemetry's
exporter for OTLP over HTTP. Defines no figure itself. Variables of OpenTelemetry work:
OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS and others of its exporter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pasture.errors import MissingExtra, UsageError
from pasture.proc.stat import start_time
from pasture_tools.metrics.exporter import ServerCollector

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricExportResult,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise MissingExtra(
        f"OpenTelemetry cannot be imported: {error}", hint="pip install 'pasture[otel]'"
    ) from error

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family
    from prometheus_client.samples import Sample

PATH = "/v1/metrics"
"""Path of a collector, if the URL has none."""

_SCOPE = "pasture"
_UNITS = {"_bytes": "By", "_seconds": "s"}
_TIMEOUT_S = 10.0
_LOOK_S = 1.0


class Sender:
    """Sends the figures of a master and its workers whenever it is called."""

    def __init__(self, url: str, find: Callable[[], int | None]) -> None:
        """Make a sender; nothing is sent yet.

        Args:
            url: of the collector; `/v1/metrics` is added if it has no path.
            find: returns the pid of the master, or None.

        Raises:
            UsageError: it is not an HTTP URL.
        """
        self._exporter = OTLPMetricExporter(endpoint=endpoint(url), timeout=_TIMEOUT_S)
        self._find, self._collector = find, ServerCollector(None)
        self._resource, self._started_ns = Resource.create(), time.time_ns()

    def send(self) -> bool:
        """Read all figures once and send them; returns whether the collector accepted them."""
        pid = self._find()
        if pid is not None and pid != self._collector.master_pid:
            self._resource = Resource.create({"process.pid": pid})
            self._started_ns = _started_ns(pid)
        self._collector.master_pid = pid
        families = self._collector.collect()
        data = metrics_data(families, self._resource, self._started_ns, time.time_ns())
        return bool(self._exporter.export(data) is MetricExportResult.SUCCESS)


def endpoint(url: str) -> str:
    """The address of a collector, with its path. UsageError if it is not an HTTP URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not an HTTP URL", hint="as in http://localhost:4318")
    return url if parts.path.strip("/") else parts._replace(path=PATH).geturl()


def shown(url: str) -> str:
    """The address for a log: a URL may hold a password or a key."""
    parts = urlsplit(endpoint(url))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def send_until(
    send: Callable[[], bool],
    interval_s: float,
    wanted: Callable[[], bool],
    say: Callable[[str], object],
) -> None:
    """Send at each interval while `wanted` returns true, checked every second."""
    works, next_s = True, time.monotonic()
    while wanted():
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + interval_s
            if send() != works:
                works = not works
                say("are sent again" if works else "cannot be sent; the next interval tries again")
        time.sleep(min(_LOOK_S, interval_s))


def _started_ns(pid: int) -> int:
    """The start of a process, on the clock of `time.time_ns`; now if that is unknown."""
    now_ns, ticks = time.time_ns(), start_time(pid)
    since_boot_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    booted_ns = now_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return booted_ns + since_boot_ns if ticks else now_ns


def metrics_data(
    families: Iterable[Family], resource: Resource, started_ns: int, now_ns: int
) -> MetricsData:
    """Prometheus's families in OpenTelemetry's form."""
    metrics = [_metric(family, started_ns, now_ns) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope(_SCOPE), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Family, started_ns: int, now_ns: int) -> Metric:
    """One metric. An info is a gauge of 1 whose name ends in `_info`, its words as attributes."""
    data = _KINDS[family.type](family.samples, started_ns, now_ns)
    name = family.samples[0].name if family.type == "info" else family.name
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    return Metric(name, family.documentation, unit, data)


def _gauge(samples: Sequence[Sample], started_ns: int, now_ns: int) -> Gauge:
    return Gauge([NumberDataPoint(s.labels, started_ns, now_ns, float(s.value)) for s in samples])


def _sum(samples: Sequence[Sample], started_ns: int, now_ns: int) -> Sum:
    points = [NumberDataPoint(s.labels, started_ns, now_ns, float(s.value)) for s in samples]
    return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)


def _histogram(samples: Sequence[Sample], started_ns: int, now_ns: int) -> Histogram:
    """A histogram without labels: Prometheus cumulates the buckets, OpenTelemetry does not."""
    buckets = [(float(s.labels["le"]), int(s.value)) for s in samples if s.name.endswith("_bucket")]
    total = next(s.value for s in samples if s.name.endswith("_sum"))
    counts = list(_differences([count for _, count in buckets]))
    not_known: Any = None
    point = HistogramDataPoint(
        attributes={},
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=buckets[-1][1],
        sum=total,
        bucket_counts=counts,
        explicit_bounds=[bound for bound, _ in buckets[:-1]],
        min=not_known,
        max=not_known,
    )
    return Histogram([point], AggregationTemporality.CUMULATIVE)


def _differences(cumulated: Sequence[int]) -> Iterator[int]:
    before = 0
    for count in cumulated:
        yield count - before
        before = count


_KINDS: Mapping[str, Callable[..., Any]] = {
    "gauge": _gauge,
    "info": _gauge,
    "counter": _sum,
    "histogram": _histogram,
}
"""Functions by the type of a family."""
