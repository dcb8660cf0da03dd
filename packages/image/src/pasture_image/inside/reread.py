"""Variables that a module reads while it is loaded, and that can be read again.

Some variables are another one for each program, because the process that starts it sets them. An
image in which a module has read one would then fit no program at all. Owns which these are, and how
the module gets the value of the new process. Every other variable that a module reads has to be
what it was (`variables`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import ModuleType

ALL_VARIABLES = "*"
"""In the place of a name: going through all of them, or a program that inherits them."""


def _parent_of_kernel(kernelapp: ModuleType, environ: Mapping[str, str]) -> None:
    """A kernel ends with the process that started it.

    Source: ipykernel 7.4 kernelapp.py, IPKernelApp.parent_handle; traitlets 5.16 traitlets.py,
    MetaHasTraits.setup_class: defaults of numbers are copied into each class.
    """
    pid = int(environ.get("JPY_PARENT_PID") or 0)
    kernelapp.IPKernelApp.parent_handle.default_value = pid
    classes = [kernelapp.IPKernelApp]
    while classes:
        one = classes.pop()
        if "parent_handle" in one._static_immutable_initial_values:
            one._static_immutable_initial_values["parent_handle"] = pid
        classes += one.__subclasses__()


def _environ_of_wsgi(handlers: ModuleType, _: Mapping[str, str]) -> None:
    """Handlers start each request's environment with the process's."""
    handlers.BaseHandler.os_environ = handlers.read_environ()


def _defaults_of_gunicorn(config: ModuleType, environ: Mapping[str, str]) -> None:
    """Source: gunicorn 19 to 27, config.py: defaults that are found out when it is loaded."""
    config.Chdir.default = config.util.getcwd()
    config.User.default, config.Group.default = os.geteuid(), os.getegid()
    config.Workers.default = int(environ.get("WEB_CONCURRENCY", 1))
    port = environ.get("PORT")
    config.Bind.default = ["127.0.0.1:8000" if port is None else f"0.0.0.0:{port}"]
    if hasattr(config, "ControlSocket"):
        config.ControlSocket.default = config._get_default_control_socket()


_OF_GUNICORN = tuple(
    ("gunicorn.config", name) for name in ("PORT", "WEB_CONCURRENCY", "XDG_RUNTIME_DIR")
)


def _nothing(_: ModuleType, __: Mapping[str, str]) -> None:
    """What was read makes no difference."""


_READERS: Mapping[tuple[str, str], Callable[[ModuleType, Mapping[str, str]], None]] = {
    ("ipykernel.kernelapp", "JPY_PARENT_PID"): _parent_of_kernel,
    ("wsgiref.handlers", ALL_VARIABLES): _environ_of_wsgi,
    **dict.fromkeys(_OF_GUNICORN, _defaults_of_gunicorn),
    ("gunicorn.util", "PWD"): _nothing,  # for a default of gunicorn.config
    ("platform", "PATH"): _nothing,  # it asks `uname` for the processor's name
    ("platform", ALL_VARIABLES): _nothing,
    ("ctypes.util", "PATH"): _nothing,  # it looks for compilers and libraries
    ("ctypes.util", ALL_VARIABLES): _nothing,
    ("uuid", "PATH"): _nothing,  # it asks programs for a network card, and `generators` again
    ("uuid", ALL_VARIABLES): _nothing,
    **{("gettext", name): _nothing for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")},
    ("site", "HOME"): _nothing,  # where packages of the user are: `locales`
    ("sysconfig", "HOME"): _nothing,
}


_KEEP_NOTHING = frozenset(("pasture.warmup.process_state",))
"""Modules that look at variables before and after something, and keep none."""


def is_read_again(module: str, variable: str) -> bool:
    """Whether what a module has read of a variable will be put right in each program.

    Args:
        module: its name; "" for code in C.
        variable: its name, or `ALL_VARIABLES`.
    """
    # Whether pasture is off is asked again by the stub, before anything of the image.
    is_own = module.startswith("pasture") and variable.startswith("PASTURE")
    return is_own or module in _KEEP_NOTHING or (module, variable) in _READERS


def read_again(loaded: Mapping[str, ModuleType], environ: Mapping[str, str]) -> None:
    """Give modules the values of this process. Where a copy has come to life.

    Raises:
        ValueError, AttributeError: a value, or a module, is not what is expected. The interpreter
            itself then has to run the program.
    """
    for module, read in dict.fromkeys((module, read) for (module, _), read in _READERS.items()):
        if module in loaded:
            read(loaded[module], environ)
