"""A configuration with plain users."""

from pathlib import Path

here = Path.cwd()
Path("users").write_text("ann:secret\nbob:secret\n")
Path("radicale.ini").write_text(
    f"""[auth]
type = htpasswd
htpasswd_filename = {here}/users
htpasswd_encryption = plain
delay = 0
[storage]
filesystem_folder = {here}/collections
[rights]
type = owner_only
"""
)
