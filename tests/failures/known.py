"""What goes wrong and is not pasture's."""

BEFORE_MAIN = "before main()"
UNREAD = "as of an empty script"
NOT_FOUND = ("ModuleNotFoundError: No module named ", "ImportError: cannot import name ")
WAKEUP = "Exception ignored while trying to write to the signal wakeup fd"
READ, FSTAT, NEWFSTATAT = 1000, 5, 262

KNOWN = {
    BEFORE_MAIN: "the C library's own start",
    UNREAD: "CPython takes a script that it cannot read for an empty one",
    "Exception ignored in atfork callback while copying list": (
        "CPython leaves out all functions of os.register_at_fork where it cannot copy their list, "
        "and a lock that one of them releases stays locked"
    ),
    "self.tmp = WorkerTmp(cfg)": "gunicorn's parent ends with any error of that",
    WAKEUP: "gunicorn's, and CPython's",
    "RuntimeError: can't allocate read lock": "CPython's io has no memory for a lock",
    "self._path.joinpath(filename).read_text(encoding='utf-8')": "importlib's, of no process",
    **dict.fromkeys(NOT_FOUND, "CPython's import takes a failed stat for no file"),
    "in _fill_cache\nOSError": "CPython's import raises what the listing of a folder has raised",
    "in get_data\nOSError": "CPython's import raises what the reading of a file has raised",
    "ReInitThreads: ": "3.12 and 3.13 end a child that has no memory for its locks",
    "_PyImport_ReInitLock: ": "the same",
    "Fatal glibc error: ": "the C library's own start",
    "error while loading shared libraries: cannot apply additional memory protection": (
        "the C library's own start"
    ),
}
"""The reason, by a part of the words."""


def is_known(words: str, failed: int) -> bool:
    """Whether a fault with these words is one of them, where that call has failed."""
    parts = KNOWN.keys() if failed == NEWFSTATAT else KNOWN.keys() - {*NOT_FOUND}
    return any(part in words for part in parts)
