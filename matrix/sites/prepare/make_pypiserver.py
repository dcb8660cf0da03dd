"""A folder for packages, and a user who may upload."""

from pathlib import Path

from passlib.apache import HtpasswdFile

Path("packages").mkdir()
passwords = HtpasswdFile("passwords", new=True, default_scheme="sha256_crypt")
passwords.set_password("ann", "secret")
passwords.save()
