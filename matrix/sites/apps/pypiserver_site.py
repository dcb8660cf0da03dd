"""An index of packages whose uploads need a password."""

import os

import pypiserver

application = pypiserver.app(
    roots=[f"{os.environ['SITE_DATA']}/packages"],
    password_file=f"{os.environ['SITE_DATA']}/passwords",
    overwrite=False,
    fallback_url="http://127.0.0.1:9/",
)
