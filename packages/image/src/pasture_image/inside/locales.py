"""What an interpreter makes of the locale and of HOME at its start, made again for each program.

Variables of the locale and HOME are read by each start, so an image would be for their values of
the build. Where no module has looked at them, that is all they do: so it is done again, as the
interpreter does it. What modules have asked of the locale is asked again: it must be the same.
Where that would need another encoding, or folders on the search path, the program is for the
interpreter.

Source: CPython 3.11 to 3.15 Python/preconfig.c, Python/pylifecycle.c (_Py_CoerceLegacyLocale),
Python/initconfig.c (config_get_stdio_errors), Lib/site.py.
"""

from __future__ import annotations

import os
import sys
from _locale import CODESET, LC_CTYPE, nl_langinfo, setlocale
from collections.abc import Callable, Mapping
from typing import Any

from pasture.interpreter import native
from pasture_image.inside import streams

LOCALE = frozenset(f"LC_{name}" for name in (
    *("ALL", "ADDRESS", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES"),
    *("MONETARY", "NAME", "NUMERIC", "PAPER", "TELEPHONE", "TIME"),
))  # fmt: skip

_TARGETS = ("C.UTF-8", "C.utf8", "UTF-8")
"""Of the coercion (PEP 538)."""

_NAMES = frozenset((*LOCALE, "LANG", "LANGUAGE"))
_ENCODINGS = ("UTF-8", "utf8")

answers: dict[tuple[Callable[..., Any], tuple[Any, ...]], Any] = {}
"""What modules have asked, and what it was (`observing`)."""

_of_build: Mapping[str, str] = {}
_coerced: Mapping[str, str] = {}
_home: str | None = None


def remember() -> None:
    """Keep what this process was started with, before modules are loaded."""
    from pasture_image.inside import environment  # not in the image

    global _of_build, _coerced, _home
    _of_build, _coerced = _set_in(environment.own()), environment.coerced()
    _home = os.environ.get("HOME")


def begin_program() -> None:
    """Put locale and HOME in order, once the variables are the program's.

    Raises:
        RuntimeError: the interpreter has to do it.
    """
    is_other = _set_in(os.environ) != _of_build
    if is_other:
        _take_locale()
    else:
        os.environ.update(_coerced)
    if os.environ.get("HOME") != _home:
        _take_home()
    for (ask, args), answer in answers.items():
        if (is_other or ask.__module__ == "site") and ask(*args) != answer:
            raise RuntimeError(f"a module has asked {ask.__name__}(), which is another one now")


def _set_in(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _NAMES if environ.get(name)}


def _take_locale() -> None:
    """As the interpreter, before it knows any encoding."""
    is_read = not sys.flags.ignore_environment
    if is_read and os.environ.get("PYTHONCOERCECLOCALE"):
        raise RuntimeError("another locale, and PYTHONCOERCECLOCALE is set")
    if sys.getfilesystemencoding() != "utf-8":
        raise RuntimeError("the image has another encoding than UTF-8")
    setlocale(LC_CTYPE, "C")
    is_legacy = _set("") in ("C", "POSIX", None)
    if is_legacy:
        _coerce()
    is_chosen = sys.version_info >= (3, 15) or "utf8" in sys._xoptions
    is_chosen |= is_read and bool(os.environ.get("PYTHONUTF8"))
    is_utf8 = bool(sys.flags.utf8_mode) if is_chosen else is_legacy
    if not is_utf8 and nl_langinfo(CODESET) not in _ENCODINGS:
        raise RuntimeError("the locale has another encoding than UTF-8")
    has_errors = is_read and ":" in os.environ.get("PYTHONIOENCODING", "")
    if not has_errors:
        escapes = is_utf8 or setlocale(LC_CTYPE) in ("C", "POSIX", *_TARGETS)
        streams.errors = "surrogateescape" if escapes else "strict"
    fields: Any = type(sys.flags).__match_args__
    native().set_utf8_mode(sys.flags, fields.index("utf8_mode"), is_utf8, streams.errors)


def _set(name: str) -> str | None:
    try:
        return setlocale(LC_CTYPE, name)
    except Exception:  # of `locale`, which is not loaded for it
        return None


def _coerce() -> None:
    if os.environ.get("LC_ALL"):
        return
    if any(os.environ.get(name) for name in LOCALE - {"LC_CTYPE"}):
        raise RuntimeError("the interpreter sets all of the locale")
    target = next((name for name in _TARGETS if _set(name) is not None), None)
    if target is not None:
        os.environ["LC_CTYPE"] = target


def _take_home() -> None:
    """Packages of the user come from there."""
    site: Any = sys.modules.get("site")
    if site is None or site.USER_SITE is None:
        return
    is_used = bool(site.ENABLE_USER_SITE)
    if is_used and site.USER_SITE in sys.path:
        raise RuntimeError("packages of another user are on the search path")
    site.USER_SITE = site.USER_BASE = None
    if os.path.isdir(site.getusersitepackages()) and is_used:  # noqa: PTH112
        raise RuntimeError("the user has packages")
    kept = getattr(sys.modules.get("sysconfig"), "_CONFIG_VARS", None)
    if kept and "userbase" in kept:
        kept["userbase"] = site.getuserbase()
