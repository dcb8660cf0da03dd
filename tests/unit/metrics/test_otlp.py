"""Prometheus's families as OpenTelemetry's metrics, and when they are sent."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pasture.errors import UsageError

core = pytest.importorskip("prometheus_client.core")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.sdk.resources import Resource  # noqa: E402

from pasture_tools.metrics import otlp  # noqa: E402

pytestmark = pytest.mark.once


def families() -> Iterator[Any]:
    yield core.GaugeMetricFamily("pasture_tree_pss_bytes", "What it takes", 7)
    yield core.GaugeMetricFamily("pasture_none", "Of no process", labels=("pid",))
    counter = core.CounterMetricFamily("pasture_collections", "Done", labels=("generation",))
    counter.add_metric(("2",), 5)
    yield counter
    yield core.InfoMetricFamily("pasture_seal", "Latest", value={"policy": "seal"})
    buckets = [("0.5", 2.0), ("1.0", 3.0), ("+Inf", 7.0)]
    yield core.HistogramMetricFamily("pasture_pause_seconds", "Took", buckets, sum_value=4.5)


@pytest.fixture(scope="module")
def metrics() -> dict[str, Any]:
    data = otlp.metrics_data(families(), Resource({}), 10, 20)
    return {one.name: one for one in data.resource_metrics[0].scope_metrics[0].metrics}


def test_a_gauge_has_its_value_and_unit(metrics: dict[str, Any]) -> None:
    gauge = metrics["pasture_tree_pss_bytes"]

    assert (gauge.unit, gauge.description) == ("By", "What it takes")
    assert [point.value for point in gauge.data.data_points] == [7]


def test_a_family_without_samples_is_left_out(metrics: dict[str, Any]) -> None:
    assert "pasture_none" not in metrics


def test_a_counter_is_a_sum_since_the_start_of_the_master(metrics: dict[str, Any]) -> None:
    counter = metrics["pasture_collections"].data
    (point,) = counter.data_points

    assert counter.is_monotonic
    assert (point.start_time_unix_nano, point.time_unix_nano) == (10, 20)
    assert (dict(point.attributes), point.value) == ({"generation": "2"}, 5)


def test_an_info_has_the_name_that_prometheus_shows(metrics: dict[str, Any]) -> None:
    (point,) = metrics["pasture_seal_info"].data.data_points

    assert (dict(point.attributes), point.value) == ({"policy": "seal"}, 1)


def test_the_buckets_of_a_histogram_are_not_cumulated(metrics: dict[str, Any]) -> None:
    (point,) = metrics["pasture_pause_seconds"].data.data_points

    assert (point.count, point.sum) == (7, 4.5)
    assert list(point.bucket_counts) == [2, 1, 4]
    assert list(point.explicit_bounds) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
        ("https://otel.example/in?key=1", "https://otel.example/in?key=1"),
    ],
)
def test_the_path_of_a_collector_is_added_where_there_is_none(url: str, whole: str) -> None:
    assert otlp.endpoint(url) == whole


def test_the_address_in_the_log_holds_no_secret() -> None:
    assert otlp.shown("https://me:secret@otel:4318?key=secret") == "https://otel:4318/v1/metrics"


@pytest.mark.parametrize("url", ["localhost:4318", "grpc://localhost:4317", "http://", ""])
def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        otlp.endpoint(url)


def test_a_failure_is_said_once_and_so_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [True, False, False, True, True]
    said: list[str] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    otlp.send_until(lambda: outcomes.pop(0), 0, lambda: bool(outcomes), said.append)

    assert [words.split(";")[0] for words in said] == ["cannot be sent", "are sent again"]
