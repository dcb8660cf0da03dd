"""The JSON document keeps its promise, and reports replace each other whole."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from pasture.errors import ServerFailed, UsageError
from pasture.trust.untrusted_text import to_json
from pasture.warmup.requests import Request
from pasture_tools.display.atomic import require_writable, write_atomically
from pasture_tools.trial.document import SCHEMA_FILE, as_document
from pasture_tools.trial.measurement import Failure, PolicyResult, Run, TrialResult
from pasture_tools.trial.responses import Disagreement

MB = 1_000_000
MakeRun = Callable[..., Run]
MakeResult = Callable[..., TrialResult]


@pytest.fixture(scope="module")
def validate() -> Callable[[Any], Any]:
    compiled: Callable[[Any], Any] = fastjsonschema.compile(json.loads(SCHEMA_FILE.read_text()))
    return compiled


def test_a_document_of_several_rounds_follows_its_schema(
    make_result: MakeResult, make_run: MakeRun, validate: Callable[[Any], Any]
) -> None:
    runs = [make_run(p, round=r) for r in range(2) for p in ("stock", "seal")]

    validate(json.loads(to_json(as_document(make_result(*runs)))))


def test_a_document_names_the_server_and_the_policies_that_it_has_not(
    make_result: MakeResult, make_run: MakeRun, validate: Callable[[Any], Any]
) -> None:
    policies = ("stock", "seal", "refork")
    result = make_result(make_run("stock"), make_run("seal"), server="uwsgi", policies=policies)

    document = json.loads(to_json(as_document(result)))

    validate(document)
    assert document["load"]["server"] == "uwsgi"
    assert list(document["impossible"]) == ["refork"]
    assert list(document["policies"]) == ["stock", "seal"]


@pytest.mark.parametrize(
    "key", ["workers", "private_bytes_median", "latency_ms", "series", "shutdown_s"]
)
def test_the_schema_misses_a_key_that_was_promised(
    make_result: MakeResult, validate: Callable[[Any], Any], key: str
) -> None:
    document = as_document(make_result())
    del document["policies"]["seal"][key]

    with pytest.raises(fastjsonschema.JsonSchemaValueException, match=key):
        validate(document)


def test_sizes_are_whole_bytes_of_the_policy(make_result: MakeResult) -> None:
    seal = as_document(make_result())["policies"]["seal"]

    assert seal["private_bytes_median"] == 5 * MB
    assert seal["workers"][0]["private_bytes"] == 5 * MB
    assert seal["saving"]["private_fraction"] == 0.75
    assert seal["latency_ms"] == {"p50": 4.0, "p95": 9.5, "p99": 20.25}
    assert seal["shutdown_peak_ratio"] == 2.0
    assert seal["series"][-1]["requests"] == 100


def test_rounds_are_kept_and_paired(make_result: MakeResult, make_run: MakeRun) -> None:
    result = make_result(
        make_run("stock", round=0, private=20 * MB),
        make_run("seal", round=0, private=4 * MB),
        make_run("seal", round=1, private=5 * MB),
        make_run("stock", round=1, private=10 * MB),
    )

    seal = as_document(result)["policies"]["seal"]

    assert [r["private_bytes_median"] for r in seal["rounds"]] == [4 * MB, 5 * MB]
    assert seal["against_reference"]["private_bytes_median"] == {
        "median": 0.35, "least": 0.2, "greatest": 0.5,
    }  # fmt: skip


def test_what_failed_is_listed_and_follows_the_schema(
    make_result: MakeResult, validate: Callable[[Any], Any]
) -> None:
    failure = Failure("freeze", 1, ServerFailed("it fell over"))

    document = as_document(replace(make_result(), failures=(failure,), interrupted=True))

    validate(json.loads(to_json(document)))
    assert document["interrupted"] is True
    assert document["failures"] == [{"policy": "freeze", "round": 1, "error": "it fell over"}]


def test_different_answers_are_listed(make_result: MakeResult, make_run: MakeRun) -> None:
    differing = (Disagreement("GET /", "status", "200", "500"),)
    result = make_result()
    policies = (result.policies[0], PolicyResult("seal", (make_run("seal"),), differing))

    document = as_document(replace(result, policies=policies))

    assert document["answers_agree"] is False
    assert document["policies"]["stock"]["answers_agree"] is True
    assert document["policies"]["seal"]["disagreements"][0]["found"] == "500"


def test_values_of_headers_stay_secret(make_result: MakeResult) -> None:
    result = make_result(headers=(("Cookie", "session=s3cret"),), urls=(Request("GET", "/"),))

    text = to_json(as_document(result))

    assert "s3cret" not in text
    assert "Cookie" in text


def test_a_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("old")

    write_atomically(file, "new")

    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_earlier_report(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("old")

    with pytest.raises(UsageError, match="surrogates not allowed"):
        write_atomically(file, "new and half a character: \ud800")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_directory_that_is_not_there_is_found_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="report"):
        require_writable(tmp_path / "absent" / "report.json")
    with pytest.raises(UsageError, match="directory"):
        require_writable(tmp_path)

    require_writable(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
