"""Variables of the environment that the interpreter and libraries in C read at each start.

Owns their names, and those of variables that differ from start to start. The values of the former
come into every image, so a name is here because the start reads it, and not for how it begins:
`PYTHON_KEYRING_PASS` and `LC_TOKEN` are a program's own, and kept out of images. Where
the names of a library's variables are not all known, those that begin as its own count, but for
names that say that they hold a secret.

Sources: CPython 3.11 to 3.15, the names in its binary (tests/unit/image/test_start_variables.py);
ld.so(8) and musl's ldso; locale(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pasture_image.inside.locales import LOCALE

_PYTHON = (
    *("ASYNCIODEBUG", "BREAKPOINT", "CASEOK", "COERCECLOCALE", "DEBUG", "DEVMODE"),
    *("DONTWRITEBYTECODE", "DUMPREFS", "DUMPREFSFILE", "EXECUTABLE", "FAULTHANDLER", "HASHSEED"),
    *("HOME", "INSPECT", "INTMAXSTRDIGITS", "IOENCODING", "MALLOC", "MALLOCSTATS"),
    *("NODEBUGRANGES", "NOUSERSITE", "OPTIMIZE", "PATH", "PERFSUPPORT", "PLATLIBDIR"),
    *("PROFILEIMPORTTIME", "PYCACHEPREFIX", "SAFEPATH", "STARTUP", "THREADDEBUG", "TRACEMALLOC"),
    *("UNBUFFERED", "USERBASE", "UTF8", "VERBOSE", "WARNDEFAULTENCODING", "WARNINGS"),
    *("_BASIC_REPL", "_COLORS", "_CONTEXT_AWARE_WARNINGS", "_CPU_COUNT", "_DISABLE_REMOTE_DEBUG"),
    *("_FROZEN_MODULES", "_GIL", "_HISTORY", "_JIT", "_LAZY_IMPORTS", "_PATHCONFIG_WARNINGS"),
    *("_PERF_JIT_SUPPORT", "_PRESITE", "_PYMALLOC_HUGEPAGES", "_SPECIALIZATION_OFF"),
    *("_THREAD_INHERIT_CONTEXT", "_TLBC", "_UOPS_OPTIMIZE"),
)
_LINKER = (
    *("ASSUME_KERNEL", "AUDIT", "BIND_NOT", "BIND_NOW", "DEBUG", "DEBUG_OUTPUT", "DYNAMIC_WEAK"),
    *("HWCAP_MASK", "LIBRARY_PATH", "ORIGIN_PATH", "POINTER_GUARD", "PREFER_MAP_32BIT_EXEC"),
    *("PRELOAD", "PROFILE", "PROFILE_OUTPUT", "SHOW_AUXV", "TRACE_LOADED_OBJECTS"),
    *("TRACE_PRELINKING", "USE_LOAD_BIAS", "VERBOSE", "WARN"),
)
NAMES = frozenset((
    *(f"PYTHON{name}" for name in _PYTHON),
    *(f"LD_{name}" for name in _LINKER),
    *LOCALE,
    *("LANG", "LANGUAGE", "LOCPATH", "TZ", "GLIBC_TUNABLES"),
    *("HOME", "__PYVENV_LAUNCHER__"),
))  # fmt: skip
"""By their whole names. HOME is where packages of the user are."""

BEGINNINGS = (
    *("PYTHON_JIT_", "MALLOC_", "GOMP_", "OMP_", "OPENBLAS_", "GOTO_", "MKL_", "KMP_", "BLIS_"),
    *("NUMEXPR_", "COV_CORE_", "COVERAGE_PROCESS_", "OPENSSL_", "NPY_", "MIMALLOC_", "TCMALLOC_"),
    "_RJEM_MALLOC_",
)
"""Of those of libraries in C, whose names are not all known."""

READ_BY: Mapping[str, tuple[str, ...]] = {
    "grpc": ("GRPC_",),
    "jax": ("JAX_", "XLA_", "CUDA_"),
    "polars": ("POLARS_", "RAYON_"),
    "pyarrow": ("ARROW_",),
    "ray": ("RAY_", "GRPC_"),
    "tensorflow": ("TF_", "XLA_", "CUDA_"),
    "torch": ("TORCH_", "PYTORCH_", "CUDA_", "NCCL_"),
}
"""Beginnings of variables that the code in C of a module reads while it is loaded, unseen by
Python. (ray 2.60 keeps the job's id of then: RayConfig in _raylet.so.)"""

READ_LATER = frozenset((
    *("PYTHONBREAKPOINT", "PYTHONASYNCIODEBUG", "PYTHON_COLORS", "PYTHON_HISTORY"),
    *("PYTHON_BASIC_REPL", "PYTHONSTARTUP", "LD_BIND_NOW"),
))  # fmt: skip
"""Of `NAMES`: those that are read when they are used."""

READ_AGAIN = frozenset((*LOCALE, "LANG", "LANGUAGE"))
"""Of `NAMES`: unless modules look at one of them, a program gets what its own start would have made
of them (`locales`), as of HOME."""

_SAYS_SECRET = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASS|PASSWD|PASSWORD|PASSPHRASE|PWD|CREDENTIALS?|AUTH|DSN)(?:_|$)"
)

OF_PLACE = frozenset((
    *("PATH", "PWD", "OLDPWD", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG"),
    *("LANGUAGE", "TZ", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "HOSTNAME", "HOST", "_", "SHLVL"),
    *("EDITOR", "PAGER", "LS_COLORS", "TMPDIR", "DISPLAY", "MAIL", "XDG_RUNTIME_DIR", "MAKEFLAGS"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CONDA_PREFIX", "DEBIAN_FRONTEND"),
    *("CONDA_DEFAULT_ENV", "PYTEST_CURRENT_TEST", "PYENV_ROOT", "PYENV_VERSION"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
))  # fmt: skip
"""Variables that say where and how a program runs: a builder has them."""

UNCOUNTED = frozenset((
    *("_", "SHLVL", "PWD", "OLDPWD"),  # of a shell, for each program
    *("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID"),  # of a login
    "HOSTNAME",  # of a container
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"),  # of systemd, for each start
    *("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"),
    *("PASTURE", "JPY_PARENT_PID"),
))  # fmt: skip
UNCOUNTED_BEGINNINGS = ("PASTURE_", "_PASTURE_")
"""Variables that differ from start to start: by their whole names, and how they begin."""


def says_secret(name: str) -> bool:
    """Whether a variable's name says that its value is one."""
    return _SAYS_SECRET.search(name) is not None


def is_uncounted(name: str) -> bool:
    """Whether a variable differs from start to start, whatever a program is to do.

    A module that goes through all variables depends on all but these, and does not see them. One
    that asks for one of them by its name depends on it.
    """
    return name in UNCOUNTED or name.startswith(UNCOUNTED_BEGINNINGS)


def beginnings(modules: Iterable[str]) -> tuple[str, ...]:
    """How variables begin that code in C reads at the start, or while these modules are loaded."""
    loaded = frozenset(modules)
    of_modules = {begin for module, all_of_it in READ_BY.items() if module in loaded
                  for begin in all_of_it}  # fmt: skip
    return (*BEGINNINGS, *sorted(of_modules))


def started_with(environ: Mapping[str, str], named: Iterable[str]) -> dict[str, str | None]:
    """Those that a builder is started with, as `always_read`: which modules it loads, and whether
    their code in C asks the kernel for what was named for the image, is not known by then."""
    of_named = {
        name: environ[name]
        for name in environ.keys() & set(named) - READ_LATER
        if not is_uncounted(name) and not _SAYS_SECRET.search(name)
    }
    return always_read(environ, beginnings(READ_BY)) | of_named


def always_read(
    environ: Mapping[str, str], beginnings: tuple[str, ...] = BEGINNINGS
) -> dict[str, str | None]:
    """Those of the variables that matter to every start, with their values; None: not set."""
    found: dict[str, str | None] = {name: environ.get(name) for name in NAMES - READ_LATER}
    return found | {
        name: value
        for name, value in environ.items()
        if name.startswith(beginnings) and not _SAYS_SECRET.search(name)
    }
