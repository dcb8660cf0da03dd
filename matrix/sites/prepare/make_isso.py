"""Settings of a site whose comments need no approval."""

from pathlib import Path

Path("isso.cfg").write_text(
    f"""[general]
dbpath = {Path.cwd()}/comments.db
host = http://localhost/
[moderation]
enabled = false
[guard]
enabled = false
[admin]
enabled = true
password = secret
[hash]
salt = of-this-test
"""
)
