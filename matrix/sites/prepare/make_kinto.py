"""Tables in PostgreSQL, and a configuration that lets its users write."""

import os
import subprocess
import sys
from pathlib import Path

url = os.environ["POSTGRES_URL"]
Path("kinto.ini").write_text(
    f"""[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.postgresql
kinto.storage_url = {url}
kinto.permission_backend = kinto.core.permission.postgresql
kinto.permission_url = {url}
kinto.cache_backend = kinto.core.cache.postgresql
kinto.cache_url = {url}
kinto.userid_hmac_secret = of-this-test-alone
multiauth.policies = account
multiauth.policy.account.use = kinto.plugins.accounts.authentication.AccountsAuthenticationPolicy
kinto.includes = kinto.plugins.accounts kinto.plugins.history kinto.plugins.default_bucket
kinto.account_create_principals = system.Everyone
kinto.bucket_create_principals = system.Authenticated
"""
)
kinto = Path(sys.executable).with_name("kinto")
subprocess.run([kinto, "migrate", "--ini", "kinto.ini"], check=True)
