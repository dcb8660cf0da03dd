"""Where packages come from is for the machine to say, not for the repository."""

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).resolve().parents[2]

HOSTS = re.compile(
    r"""
    \b(?: pypi[.]org | pypi[.]python[.]org | pythonhosted[.]org | pypa[.]io | astral[.]sh
        | (?: conda | anaconda ) [.] (?: org | com )
        | debian[.]org | (?: archive | security | ports ) [.]ubuntu[.]com | launchpadcontent[.]net
        | dl-cdn[.]alpinelinux[.]org | (?: dl | download )[.]fedoraproject[.]org
        | crates[.]io | (?: npmjs | yarnpkg ) [.] (?: org | com ) | rubygems[.]org
        | proxy[.]golang[.]org | repo1?[.]maven(?:[.]apache)?[.]org
        | docker[.] (?: io | com ) | quay[.]io | ghcr[.]io | gcr[.]io
        | raw[.]githubusercontent[.]com | codeload[.]github[.]com
        | github[.]com/[^\s)"']+/ (?: releases/download | archive | raw ) /
        | downloads[.]sourceforge[.]net | python[.]org/ftp
    )\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tracked_files() -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [REPOSITORY / name for name in listed.split("\0") if name]


def test_no_tracked_file_names_the_host_of_a_registry() -> None:
    """No tracked file, prose included, names a host that packages or sources are fetched from.

    That is: an index of packages, a mirror of a distribution, a registry of images, a download
    of a forge. Tools take them from the machine: pip's settings (tools/uv), apt's sources
    (tools/debian-mirror). Links to documentation and to the pages of a project are not meant;
    they lead to other hosts, or to other paths of a forge.
    """
    named = [
        f"{file.relative_to(REPOSITORY)}:{number}: {found[0]}"
        for file in tracked_files()
        if file.is_file()
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if (found := HOSTS.search(line))
    ]
    assert named == []


@pytest.mark.parametrize(
    ("host", "rest"),
    [
        ("https://pypi.", "org/simple"),
        ("https://files.python", "hosted.org/packages/4b/46/x.whl"),
        ("http://deb.debian.", "org/debian"),
        ("http://ftp.de.debian.", "org/debian"),
        ("https://static.crates.", "io/crates"),
        ("https://github.", "com/owner/name/releases/download/v1/x.tar.gz"),
    ],
)
def test_a_place_to_download_from_is_recognized(host: str, rest: str) -> None:
    assert HOSTS.search(f"URL={host}{rest}")


@pytest.mark.parametrize(
    "link",
    [
        "https://docs.python.org/3/library/gc.html",
        "https://docs.djangoproject.com/en/5.2/",
        "https://github.com/python/cpython/issues/12345",
        "from PyPI, or out of Debian's archive",
    ],
)
def test_a_link_to_documentation_is_not(link: str) -> None:
    assert not HOSTS.search(link)
