"""No value of a variable that modules were not given comes into an image."""

from __future__ import annotations

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzVERYSECRET"
NAME = "AWS_SECRET_ACCESS_KEY"
READS = f"import os\nKEY = os.environ.get({NAME!r}, 'none')\n"


def test_modules_find_those_variables_alone_that_were_named(own_images: Images) -> None:
    own_images.module("reads", READS)
    own_images.built("--preload", "reads", environ={NAME: SECRET})
    assert SECRET.encode() not in own_images.image.read_bytes()
    source = "import reads; print(reads.KEY)"
    assert own_images.served("-c", source).out == b"none\n"
    # What the module has read then would be another value now.
    assert f"a variable that matters at the start: {NAME}" in own_images.why(environ={NAME: SECRET})
    assert own_images.run("-c", source, environ={NAME: SECRET}).out == f"{SECRET}\n".encode()
    # One that is named is found, and must be the same.
    own_images.built("--preload", "reads", "--env", f"{NAME}=public", environ={NAME: SECRET})
    assert own_images.why(environ={NAME: "public"}) == ""
    assert NAME in own_images.why(environ={NAME: SECRET})
    assert NAME in own_images.why()
