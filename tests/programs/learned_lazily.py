"""Imported by a page of `learning_app`. No look at its values shows who has imported it."""

import os


def imported_by(pid=os.getpid()):  # noqa: B008  once, at the import
    return pid
