"""What a site says of its immortal code."""

from pathlib import Path

import pytest

from pasture.errors import ServerFailed
from pasture_lab.engine.experiment import Bench
from pasture_lab.experiments.code_refcount import immortal_codes


@pytest.mark.parametrize("said", ["", "immortal code objects: 0\n"])
def test_a_site_whose_code_is_not_immortal_is_no_comparison(tmp_path: Path, said: str) -> None:
    bench = Bench(tmp_path, tmp_path / "log", {}, lambda done: None, lambda seconds: None)
    bench.log("server").write_text(f"*** starting uWSGI ***\n{said}")
    with pytest.raises(ServerFailed, match="no code object became immortal"):
        immortal_codes(bench)
    bench.log("server").write_text("immortal code objects: 13814\nspawned\n")
    assert immortal_codes(bench) == 13814
