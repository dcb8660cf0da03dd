"""OpenTelemetry's SDK set up in code: traces, metrics and logs over HTTP.

Exporters and intervals come from the variables OTEL_*. Counters report what is new (delta), so
that each mark is in one message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

log = logging.getLogger("marks")
counter: Any = None


def start() -> None:
    global counter
    tracing = TracerProvider()
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracing)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
    logs = LoggerProvider()
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    log.addHandler(LoggingHandler(logger_provider=logs))
    log.setLevel(logging.INFO)
    counter = metrics.get_meter("marks").create_counter("marks")


def report(mark: Callable[[str], str]) -> None:
    with trace.get_tracer("marks").start_as_current_span(mark("trace")):
        pass
    counter.add(1, {"mark": mark("metric")})
    log.info(mark("log"))
