"""No variable of an image's builder reaches a program, however a module reads it."""

from __future__ import annotations

import subprocess

import pytest
from images import BIN, SAID, STUB, Images, compile_library

pytestmark = [pytest.mark.once, pytest.mark.integration]

SECRET = "sk-9f86d081884c7d65"

LOOKS = """import os
MINE = {k[4:].lower(): v for k, v in os.environ.items() if k.startswith("APP_")}
URLS = [v for k, v in os.environ.items() if k.lower().endswith("_url")]
os.environ.get("SINGLE"), os.environ.get("EDITOR")
"""


def test_only_variables_that_a_walk_looks_for_are_compared(own_images: Images) -> None:
    own_images.module("looks", LOOKS)
    own_images.environ |= {"APP_MODE": "fast", "EDITOR": "vi"}
    own_images.built("--preload", "looks", "--env", "APP_MODE")
    source = "import looks; print(looks.MINE, looks.URLS)"
    usual = {f"NAME_{number}": f"{number}" for number in range(40)}
    usual |= {"PATH": "/bin", "TERM": "dumb", "SHELL": "/bin/zsh", "PS1": "$", "PASTURE_X": "1"}
    assert own_images.why("-c", source, environ=usual) == ""
    assert own_images.document()["notes"] == []
    assert own_images.why("-c", source, environ={"LANG": "C", "HOME": "/"}) == ""
    of_walks = ("APP_MODE", "APP_NEW", "app_new", "DATABASE_URL", "Database_Url")
    for name in (*of_walks, "SINGLE", "EDITOR"):
        given = {"environ": {**usual, name: "7"}}
        assert own_images.why("-c", source, **given).endswith(f": {name}")
        assert own_images.run("-c", source, **given) == own_images.python("-c", source, **given)


BEGINS = "import os\nFOUND = [one for one in os.environ if one.startswith('TOK')]\n"
EXECUTES = """
import ctypes, os, sys
words = [word.encode() for word in sys.argv[1:]] + [None]
pairs = [b"TOKENS", *(b"%b=%b" % pair for pair in os.environb.items()), None]
arrays = [(ctypes.c_char_p * len(each))(*each) for each in (words, pairs)]
ctypes.CDLL(None).execve(words[0], *arrays)
"""


def test_a_variable_is_known_by_its_whole_name_and_what_has_no_value_is_none(
    own_images: Images,
) -> None:
    own_images.module("begins", f"{BEGINS}TOKEN = os.environ.get('TOKEN')\n")
    own_images.built("--preload", "begins")
    assert own_images.why("-c", "pass", environ={"TOK": "1"}).endswith(": TOK")
    words = ("-c", EXECUTES, str(STUB), "-c", "print(1)")
    ended = own_images.python(*words, environ=SAID)
    assert ended.out == b"1\n"
    assert b"started from the image" in ended.err


def test_a_walk_counts_for_all_variables_but_those_of_shells_and_logins(
    own_images: Images,
) -> None:
    own_images.module("walks", "import os\nFOUND = dict(os.environ)\n")
    own_images.built("--preload", "walks", f"--env=TOKEN={SECRET}", "--env=PATH")
    [note] = own_images.document()["notes"]
    assert (note["code"], note["subject"]) == ("variables", "walks")
    assert "walks reads all variables" in note["text"]
    same = {"TOKEN": SECRET}
    of_a_start = ("SHLVL", "PWD", "_", "SSH_TTY", "INVOCATION_ID", "JPY_PARENT_PID", "PASTURE")
    for name in (*of_a_start, "PASTURE_POLICY", "PASTURE_OF_A_LATER_VERSION"):
        assert own_images.why("-c", "pass", environ={**same, name: "7"}) == "", name
    for name in (
        "OTHER",
        "LANG",
        "HOME",
        "PASTURES",
        "HOST",
        "PWDS",
    ):  # two begin as one of these, or one so
        assert own_images.why("-c", "pass", environ={**same, name: "7"}).endswith(f": {name}")


ASKING = """\
#include <stdio.h>
#include <string.h>
static const char name[] = "ASKED_OF_KERNEL";
int answer(void)
{
    char text[65536];
    FILE *file = fopen("/proc/self/environ", "r");
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        if (strncmp(at, name, sizeof name - 1) == 0)
            return 1;
    return 0;
}
"""


def test_of_what_code_in_c_asks_the_kernel_for_count_names_in_its_text(own_images: Images) -> None:
    library = own_images.lib / "asking.so"
    compile_library(library, ASKING)
    own_images.module("asks", f"import ctypes\nA = ctypes.CDLL({str(library)!r}).answer()\n")
    own_images.built("--preload", "asks")
    assert "asked" in [note["code"] for note in own_images.document()["notes"]]
    source = "import asks; print(asks.A)"
    for environ in ({}, {"NEW": "1"}, {"HOME": "/tmp"}, {"LANG": "C"}):
        assert own_images.why("-c", source, environ=environ) == ""
    given = {"ASKED_OF_KERNEL": "1"}
    assert own_images.why("-c", source, environ=given).endswith(": ASKED_OF_KERNEL")
    built = own_images.build("--preload", "asks", environ=given)
    assert "for the variables ASKED_OF_KERNEL: --env" in built.stdout
    built = own_images.build("--preload", "asks", "--env", "ASKED_OF_KERNEL", environ=given)
    assert (built.returncode, "for the variables" in built.stdout) == (0, False)
    assert own_images.served("-c", source, environ=given).out == b"1\n"
    for other in ({}, {"ASKED_OF_KERNEL": "2"}):
        assert own_images.why("-c", source, environ=other).endswith(": ASKED_OF_KERNEL")


def test_a_variable_that_a_library_in_c_reads_unseen_is_compared(own_images: Images) -> None:
    own_images.module("ray", "")
    own_images.environ["RAY_SAME"] = "1"
    own_images.built("--preload", "ray", "--env", "RAY_SAME")
    assert own_images.why("-c", "import ray") == ""
    for name in ("RAY_JOB_ID", "RAY_SAME"):
        assert own_images.why("-c", "import ray", environ={name: "2"}).endswith(f": {name}")


def test_a_variable_of_a_rehearsal_whose_name_says_that_it_is_a_secret_is_not_in_the_image(
    own_images: Images,
) -> None:
    own_images.module("reads", "import os\nMODE = os.environ.get('MODE')\n")
    rehearsal = own_images.folder / "rehearsal.py"
    rehearsal.write_text("import os; assert os.environ['API_KEY']\n")
    own_images.environ["MODE"] = "fast"
    own_images.built(
        *("--preload", "reads", "--rehearse", str(rehearsal)),
        *("--env", "MODE", "--env", f"API_KEY={SECRET}", "--env", "A_TEXT=77d1e0b9"),
    )
    assert own_images.why() == ""
    data = own_images.image.read_bytes()
    assert (SECRET.encode() in data, b"77d1e0b9" in data) == (False, True)


# -- the locale and HOME, of which each program gets what its own start would have made

STARTED = """
import sys, os, locale, site, sysconfig, subprocess
print(sys.flags, sys.stdin.errors, sys.stdout, sys.stderr.errors, sys.getfilesystemencoding())
print(locale.getpreferredencoding(), locale.getlocale(), [*map(locale.setlocale, range(7))])
print(sorted(os.environ.items()), open("/dev/null").encoding, os.fsencode(sys.argv[1]))
print(site.USER_SITE, site.USER_BASE, sysconfig.get_config_var("userbase"))
print(subprocess.run(["sh", "-c", "echo $LC_CTYPE $HOME"], capture_output=True).stdout)
"""
PLACES: dict[str, dict[str, str | None]] = {
    "none, as for cron": {"LANG": None},
    "empty": {"LANG": ""},
    "C": {"LANG": "C"},
    "C for all": {"LC_ALL": "C"},
    "UTF-8": {"LANG": "C.UTF-8"},
    "by its category": {"LANG": None, "LC_CTYPE": "C.UTF-8"},
    "not installed": {"LANG": "tlh_KX.UTF-8"},
    "in part": {"LANG": "C.UTF-8", "LC_TIME": "C"},
    "another home, as by sudo": {"HOME": "/tmp"},
    "no home": {"HOME": None, "LANG": None},
}
OF_INTERPRETER: dict[str, dict[str, str | None]] = {
    "set as a whole": {"LANG": "C", "LC_TIME": "C.UTF-8"},
    "a program that asks not to": {"LANG": "C", "PYTHONCOERCECLOCALE": "0"},
}


@pytest.fixture(scope="module", params=["C.UTF-8", None])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Images:
    images = Images(tmp_path_factory.mktemp("anywhere"))
    images.environ["LANG"] = request.param or ""
    images.built("--preload", "json,sysconfig")
    return images


@pytest.mark.parametrize("place", [*PLACES, *OF_INTERPRETER])
def test_locale_and_home_are_those_of_the_start(anywhere: Images, place: str) -> None:
    given = {**PLACES, **OF_INTERPRETER}[place]
    environ = {n: v for n, v in {**anywhere.variables, **given}.items() if v is not None}
    seen = [
        subprocess.run([program, "-c", STARTED, b"\xff\xc3\xa4"], env=environ, capture_output=True)
        for program in (BIN / "python", STUB)
    ]
    assert seen[0].stdout.decode() == seen[1].stdout.decode()
    environ["PASTURE_IMAGE_VERBOSE"] = "1"
    said = subprocess.run([STUB, "-c", "pass"], env=environ, capture_output=True, check=True).stderr
    assert (b"started from the image" in said.splitlines()[-1]) == (place in PLACES)


def test_an_image_in_another_encoding_is_for_its_locale(own_images: Images) -> None:
    own_images.environ |= {"LC_ALL": "C", "PYTHONUTF8": "0"}
    own_images.built("--preload", "json")
    assert own_images.why() == ""
    assert "another encoding" in own_images.why(environ={"LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize(
    ("text", "another", "same", "said"),
    [
        ("import os; os.environ.get('LC_ALL')", {"LANG": "C"}, {"HOME": "/"}, "LANG"),
        ("import locale; locale.setlocale(locale.LC_ALL, '')", {"LANG": "C"}, {}, "LANG"),
        (
            "import locale; locale.setlocale(locale.LC_ALL)",
            {"LC_ALL": "C"},
            {"LANG": "C"},
            "setlocale()",
        ),
        (
            "import locale; locale.getpreferredencoding(False)",
            {"LANG": "C"},
            {"LANG": "C.utf8"},
            "getpreferredencoding()",
        ),
        ("import gettext; gettext.find('a')", {"LOCPATH": "/"}, {"LANG": "de"},
         "LOCPATH"),
    ],
)  # fmt: skip
def test_what_a_module_knows_of_the_locale_must_be_the_same(
    own_images: Images, text: str, another: dict[str, str], same: dict[str, str], said: str
) -> None:
    own_images.module("knows", text)
    own_images.built("--preload", "knows")
    assert said in own_images.why(environ=another)
    assert own_images.why(environ=same) == ""
