"""The page of `make bench-sites`: what was measured here, and what was measured elsewhere."""

from dataclasses import replace
from typing import Any

from benchmarks.sites import page
from matrix.sites.catalog import HERE, MeasuredSite, load_measured


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


ONE = MeasuredSite("one", "the first", "3.14", (), app="one:app", note="Read this.")
TWO, THREE = replace(ONE, name="two"), replace(ONE, name="three")


def test_a_row_that_was_measured_elsewhere_stays_and_counts() -> None:
    first = page([(ONE, document(10)), (TWO, document(30)), (THREE, None)], "")
    assert "| one | the first | 3.14 | 100.0 | 10.0 | 0.10 | 0.10 | 0.50 |" in first
    assert "seal's ratios: private memory 0.20, processor time 0.60." in first
    assert "| three |" not in first and "**one.** Read this." in first
    again = page([(ONE, None), (TWO, document(20)), (THREE, None)], first)
    assert "| one | the first | 3.14 | 100.0 | 10.0 | 0.10 | 0.10 |" in again
    assert "private memory 0.15, processor time 0.57." in again


def test_a_figure_that_was_not_measured_then_is_unknown_and_rows_of_other_columns_go() -> None:
    older = document(10)
    for policy in older["policies"].values():
        del policy["processor_s_per_request"]
    before = "| site | what |\n| --- | --- |\n| three | the third |\n"
    text = page([(ONE, older), (TWO, document(30)), (THREE, None)], before)
    assert "| 0.10 | - | yes |" in text and "processor time 0.65." in text
    assert "| three |" not in text


def test_every_site_has_its_pins_and_its_preparation() -> None:
    for each in load_measured().values():
        assert each.lock_file.exists(), each.name
        assert each.prepare_script.exists(), each.name
        if each.env.get("PYTHONPATH") == "{here}/apps":
            assert (HERE / "apps" / f"{each.app.partition(':')[0]}.py").exists(), each.name
        assert all("{" not in each.filled(value, {}) for value in each.env.values()), each.name
