"""An engine's command to which the system refuses something: in words where pasture asked."""

import errno
from typing import Any

import pytest

from pasture.errors import PastureError
from pasture.servers import engine
from pasture.serving import starter

pytestmark = pytest.mark.once


class Refused(engine.Engine):
    name = "refused"
    shows_log = False


def refuse() -> None:
    raise OSError(errno.ENOMEM, "no room")


def test_what_the_system_refuses_to_pasture_ends_a_command_in_words(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(starter, "take_name", lambda _: None)
    names: dict[str, Any] = {"__name__": "pasture.somewhere", "refuse": OSError(errno.ENOMEM, "")}
    exec("def of_pasture(): raise refuse", names)
    assert Refused().run(command=names["of_pasture"]) == PastureError.exit_code
    assert "other programs" in capfd.readouterr().err
    with pytest.raises(OSError, match="no room"):  # the engine's and the program's are theirs
        Refused().run(command=refuse)
