"""Imported by a page of `learning_app`: its name is another one in each process."""

import secrets

NAME = secrets.token_hex(8)
