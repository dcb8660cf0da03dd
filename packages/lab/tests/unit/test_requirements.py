"""Programs that an experiment needs."""

import pytest

from pasture.errors import NotMeasurable
from pasture_lab.engine import requirements


def test_a_program_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotMeasurable) as caught:
        requirements.find("httperf")
    assert str(caught.value) == "httperf is not installed"
    assert caught.value.hint == "apt install httperf"
