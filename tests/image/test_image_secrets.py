"""No value that modules were not given comes into an image; what comes in otherwise is found."""

from __future__ import annotations

from pathlib import Path

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


def test_what_exists_and_what_the_order_names_is_no_secret(own_images: Images) -> None:
    """As CI sets it: all of this is in the image."""
    own_images.module("meadow", "here = __file__\n")
    variables = {
        "GITHUB_WORKSPACE": str(own_images.folder),
        "AWS_CA_BUNDLE": str(own_images.lib / "meadow.py"),
        "SEARCHED": f"{own_images.lib}:{own_images.folder}",
        "CI_PROJECT_NAME": "meadow",
        "CI_PROJECT_PATH": "/".join(own_images.folder.parts[-2:]),
    }
    own_images.built("--preload", "meadow", environ=variables)
    gone = str(own_images.lib / "meadow.py")[:-1]
    done = own_images.build("--preload", "meadow", environ={"WAS_HERE": gone})
    assert "the image holds the variable WAS_HERE" in done.stderr


KEEPS = {
    "as it is": "text = {0}",
    "as bytes": "import ctypes; here = ctypes.create_string_buffer({0}.encode())",
    "beside a wider character": "text = {0} + chr(0x20ac)",
    "beside the widest character": "text = {0} + chr(0x1f600)",
}


@pytest.mark.parametrize("kept", KEEPS)
def test_a_secret_in_the_image_fails_the_build(
    own_images: Images, tmp_path: Path, kept: str
) -> None:
    """Here a module has it from a file that the build knows nothing of, but for the second one."""
    path = tmp_path / "settings.env"
    path.write_text(f"# of production\nPASSWORD={SECRET}\n")
    found = f"open({str(path)!r}).read().partition('=')[2].strip()"
    own_images.module("keeps", KEEPS[kept].format(found))
    known = ("--preload", "keeps", "--not-secret", NAME)
    for words, said in (
        (known[:2], f"the image holds the variable {NAME}"),
        ((*known, "--secret-file", str(path)), f"line 2 of the file {path}"),
    ):
        done = own_images.build(*words, environ={NAME: SECRET})
        assert (done.returncode, said in done.stderr) == (17, True), done.stderr
        assert SECRET not in done.stderr + done.stdout
        assert not own_images.image.exists()
    own_images.built(*known, environ={NAME: SECRET})
