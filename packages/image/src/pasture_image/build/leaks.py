"""Whether a finished image holds a secret: the value of a variable, or the content of a file.

Owns which values are looked for, and in which encodings. Only what is there unchanged is found:
not what a module has decoded, encrypted or taken apart. Values are never shown. A value is no
secret if it names files that are there, or is part of what the order itself puts into an image, or
is in a file of an installed module (`x86_64`): each reader of that file has it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pasture.errors import UsageError
from pasture_image.inside.locales import LOCALE
from pasture_image.inside.order import Secret

MIN_CHARACTERS = 6
"""A shorter value is in any file by chance."""

KNOWN = frozenset((
    *("PATH", "PWD", "OLDPWD", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG"),
    *("LANGUAGE", "TZ", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "HOSTNAME", "HOST", "_", "SHLVL"),
    *("EDITOR", "PAGER", "LS_COLORS", "TMPDIR", "DISPLAY", "MAIL", "XDG_RUNTIME_DIR", "MAKEFLAGS"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CONDA_PREFIX", "DEBIAN_FRONTEND"),
    *("CONDA_DEFAULT_ENV", "PYTEST_CURRENT_TEST", "PYENV_ROOT", "PYENV_VERSION"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
))  # fmt: skip
"""Variables that say where and how a program runs, and are no secrets."""

_ENCODINGS = ("utf-8", "latin-1", "utf-16-le", "utf-32-le")
"""As C has text, and as Python has it, by the widest character of the text."""

VARIABLE = "the variable "
_INSTALLED = re.compile(r"/lib(64)?/python3(\.\d+)?/|/(site|dist)-packages/")
_PIECE_BYTES = 32 << 20
_MIN_LINE = 12
_MAX_FILE_BYTES = 16 << 20


def of_variables(
    environ: Mapping[str, str], given: Collection[str], named: Iterable[str] = ()
) -> tuple[list[Secret], list[str]]:
    """Values to look for, and names of variables whose values are too short for that.

    Args:
        environ: of the builder.
        given: names of variables that the image may hold.
        named: what is in the image by its order: paths, and names of modules.
    """
    parts = {"".join(part) for text in named for part in _runs_of_parts(text)}
    left = {n: v for n, v in environ.items()
            if n not in given and n not in KNOWN and n not in LOCALE and v
            and v not in parts and not _are_files(v)}  # fmt: skip
    secrets = [
        Secret(f"{VARIABLE}{name}", os.fsencode(value))
        for name, value in left.items()
        if len(value) >= MIN_CHARACTERS
    ]
    return secrets, sorted(name for name, value in left.items() if len(value) < MIN_CHARACTERS)


def _are_files(value: str) -> bool:
    """Whether a value is a path of a file that is there, or paths of some, as in PATH."""
    return all(path.startswith("/") and os.path.lexists(path) for path in value.split(os.pathsep))


def _runs_of_parts(text: str) -> Iterator[list[str]]:
    """Parts of a path or of a module's name, and any that follow each other."""
    words = re.split(r"([/.:])", text)
    for begin in range(0, len(words), 2):
        for end in range(begin + 1, len(words) + 1, 2):
            yield words[begin:end]


def of_file(path: Path) -> list[Secret]:
    """The content of a file, each longer line of it, and what follows `=` or `:` in one.

    Raises:
        UsageError: it cannot be read, or holds nothing to look for.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="check the file's name"
        ) from None
    found = [Secret(f"the file {path}", content.strip())]
    for number, line in enumerate(content.splitlines(), 1):
        found += [Secret(f"line {number} of the file {path}", text) for text in _texts(line)]
    found = [secret for secret in found if len(secret.text) >= MIN_CHARACTERS]
    if not found or len(content) > _MAX_FILE_BYTES:
        raise UsageError(
            f"{path} is too {'long' if found else 'short'} to be looked for in an image",
            hint="name a file with a secret of some length in it",
        )
    return found


def _texts(line: bytes) -> Iterator[bytes]:
    """A longer line, but for the first and the last of a key; the value in `NAME=VALUE`."""
    text = line.strip()
    if len(text) >= _MIN_LINE and not text.startswith(b"-----"):
        yield text
    for separator in (b"=", b":"):
        yield text.partition(separator)[2].strip().strip(b"\"'")


def find(file: BinaryIO, secrets: Iterable[Secret]) -> list[str]:
    """Owners of secrets that are in a file, sorted."""
    needles = [(secret.owner, form) for secret in secrets for form in _forms(secret.text)]
    overlap = max((len(form) for _, form in needles), default=1) - 1
    found: set[str] = set()
    before = b""
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        text = before + piece
        found |= {owner for owner, form in needles if owner not in found and form in text}
        before = text[len(text) - overlap :] if overlap else b""
    return sorted(found)


def not_installed(secrets: Iterable[Secret], paths: Iterable[str]) -> list[Secret]:
    """Those secrets that no file of an installed module has, or that a user's file names.

    Args:
        paths: of modules' files and libraries in the image.
    """
    left = list(secrets)
    for path in filter(_INSTALLED.search, paths):
        if not left:
            break
        with suppress(OSError), Path(path).open("rb") as file:
            owners = find(file, [one for one in left if one.owner.startswith(VARIABLE)])
            left = [one for one in left if one.owner not in owners]
    return left


def _forms(value: bytes) -> list[bytes]:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return [value]
    forms = {text.encode(encoding, "ignore") for encoding in _ENCODINGS}
    return [form for form in forms if len(form) >= len(text)]  # latin-1 lacks wider characters
