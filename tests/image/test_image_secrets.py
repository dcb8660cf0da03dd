"""No value that modules were not given comes into an image; what comes in otherwise is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from images import Images

pytestmark = [pytest.mark.once, pytest.mark.integration]

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzVERYSECRET"
NAME = "AWS_SECRET_ACCESS_KEY"
READS = f"import os\nKEY = os.environ.get({NAME!r}, 'none')\n"


def test_modules_find_no_variable_that_was_not_named(own_images: Images) -> None:
    own_images.module("reads", READS)
    own_images.built("--preload", "reads", environ={NAME: SECRET})
    assert SECRET.encode() not in own_images.image.read_bytes()
    source = "import reads; print(reads.KEY)"
    assert own_images.run("-c", source).out == b"none\n"
    # What the module has read then would be another value now.
    assert f"a variable that matters at the start: {NAME}" in own_images.why(environ={NAME: SECRET})
    assert own_images.run("-c", source, environ={NAME: SECRET}).out == f"{SECRET}\n".encode()


def test_a_variable_that_is_named_is_found_and_must_be_the_same(own_images: Images) -> None:
    own_images.module("reads", READS)
    own_images.built("--preload", "reads", "--env", f"{NAME}=public", environ={NAME: SECRET})
    assert own_images.why(environ={NAME: "public"}) == ""
    assert NAME in own_images.why(environ={NAME: SECRET})
    assert NAME in own_images.why()


def test_a_variable_that_begins_as_one_of_pythons_is_as_any_other(own_images: Images) -> None:
    name = "PYTHON_KEYRING_PASS"
    own_images.module("plain", "x = 1\n")
    own_images.built("--preload", "plain", environ={name: SECRET})
    assert SECRET.encode() not in own_images.image.read_bytes()
    assert own_images.why(environ={name: SECRET}) == own_images.why() == ""
    own_images.module("keeps", f"text = {SECRET!r}\n")
    done = own_images.build("--preload", "keeps", environ={name: SECRET})
    assert (done.returncode, f"the image holds the variable {name}" in done.stderr) == (17, True)


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
    "as it is": "text = {value!r}",
    "as bytes": "import ctypes; here = ctypes.create_string_buffer({value!r}.encode())",
    "beside a wider character": "text = {value!r} + chr(0x20ac)",
    "beside the widest character": "text = {value!r} + chr(0x1f600)",
}


@pytest.mark.parametrize("kept", KEEPS)
def test_the_value_of_a_variable_in_the_image_fails_the_build(
    own_images: Images, tmp_path: Path, kept: str
) -> None:
    """Here a module has it from a file that the build knows nothing of."""
    path = tmp_path / "key.txt"
    path.write_text(SECRET)
    text = KEEPS[kept].format(value="VALUE").replace("'VALUE'", f"open({str(path)!r}).read()")
    own_images.module("keeps", f"{text}\n")
    done = own_images.build("--preload", "keeps", environ={NAME: SECRET})
    assert done.returncode == 17, done.stderr
    assert f"the image holds the variable {NAME}" in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert not own_images.image.exists()
    own_images.built("--preload", "keeps", "--not-secret", NAME, environ={NAME: SECRET})


def test_the_content_of_a_secret_file_in_the_image_fails_the_build(
    own_images: Images, tmp_path: Path
) -> None:
    path = tmp_path / "settings.env"
    path.write_text(f"# of production\nPASSWORD={SECRET}\n")
    own_images.module("keeps", f"text = open({str(path)!r}).read().partition('=')[2].strip()\n")
    done = own_images.build("--preload", "keeps", "--secret-file", str(path))
    assert done.returncode == 17, done.stderr
    assert f"line 2 of the file {path}" in done.stderr
    assert not own_images.image.exists()
