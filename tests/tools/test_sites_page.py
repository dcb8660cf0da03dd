"""The page of `make bench-sites`: what was measured here, and what was measured elsewhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sites import site, table
from benchmarks.sites.site import SITES, Site, read_sites


def document(seal: float) -> dict[str, Any]:
    def policy(private: float) -> dict[str, object]:
        return {
            "private_bytes_median": private * 1e6,
            "workers": [{"private_bytes": private * 1e6}, {"private_bytes": private * 2e6 + 1e6}],
            "total_pss_bytes": private * 4e6,
            "processor_s_per_request": 0.01 + private / 1e4,
        }

    policies = {"stock": policy(100), "warm-freeze": policy(50), "seal": policy(seal)}
    return {"policies": policies, "answers_agree": True}


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    monkeypatch.setattr(site, "DATA", tmp_path)
    one = Site("one", "the first", "3.14", (), "one:app")
    return [replace(one, note="Read this."), replace(one, name="two"), replace(one, name="three")]


def test_a_row_that_was_measured_elsewhere_stays_and_counts(sites: list[Site]) -> None:
    one, two, _ = sites
    one.result.write_text(json.dumps(document(10)))
    two.result.write_text(json.dumps(document(30)))
    first = table.page(sites, "")
    assert "| one | the first | 3.14 | 100.0 | 10.0 | 0.10 | 0.10 | 0.50 |" in first
    assert "seal's ratios: private memory 0.20, processor time 0.60." in first
    assert "| three |" not in first and "**one.** Read this." in first
    one.result.unlink()
    two.result.write_text(json.dumps(document(20)))
    again = table.page(sites, first)
    assert "| one | the first | 3.14 | 100.0 | 10.0 | 0.10 | 0.10 |" in again
    assert "private memory 0.15, processor time 0.57." in again


def test_a_figure_that_was_not_measured_then_is_unknown_and_rows_of_other_columns_go(
    sites: list[Site],
) -> None:
    one, two, _ = sites
    older = document(10)
    for policy in older["policies"].values():
        del policy["processor_s_per_request"]
    one.result.write_text(json.dumps(older))
    two.result.write_text(json.dumps(document(30)))
    page = table.page(sites, "| site | what |\n| --- | --- |\n| three | the third |\n")
    assert "| 0.10 | - | yes |" in page and "processor time 0.65." in page
    assert "| three |" not in page


def test_every_site_has_its_pins_and_its_preparation() -> None:
    here = SITES.parent
    for each in read_sites(SITES).values():
        assert each.lock_file.exists(), each.name
        assert (here / "prepare" / f"make_{each.name.replace('-', '_')}.py").exists(), each.name
        if each.own:
            assert (site.APPS / f"{each.app.partition(':')[0]}.py").exists(), each.name
        assert all("{" not in value for value in each.variables.values()), each.name
