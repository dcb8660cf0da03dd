"""CKAN's configuration, its tables in PostgreSQL, and an administrator with a token."""

import os
import subprocess
import sys
from pathlib import Path

OPTIONS = {
    "sqlalchemy.url": os.environ["POSTGRES_URL"],
    "ckan.redis.url": os.environ["REDIS_URL"],
    "solr_url": os.environ["HELPER_ADDRESS"] + "/solr/ckan",
    "ckan.site_url": "http://127.0.0.1",
    "ckan.storage_path": str(Path("store").resolve()),
    "ckan.plugins": "activity text_view",
    "ckan.auth.create_user_via_web": "true",
    "SECRET_KEY": "of-this-test-alone-0123456789abcdef",
    "beaker.session.secret": "of-this-test-alone-0123456789abcdef",
    "WTF_CSRF_SECRET_KEY": "of-this-test-alone-0123456789abcdef",
    "api_token.jwt.encode.secret": "string:of-this-test-alone-0123456789abcdef",
    "api_token.jwt.decode.secret": "string:of-this-test-alone-0123456789abcdef",
    "debug": "false",
}


def ckan(*words: str) -> str:
    program = Path(sys.executable).with_name("ckan")
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


os.environ.pop("CKAN_INI")
Path("store").mkdir()
ckan("generate", "config", "ckan.ini")
ckan("config-tool", "ckan.ini", *(f"{name}={value}" for name, value in OPTIONS.items()))
os.environ["CKAN_INI"] = "ckan.ini"
ckan("db", "init")
ckan("user", "add", "admin", "email=a@example.com", "password=secret-of-a-test")
ckan("sysadmin", "add", "admin")
token = ckan("user", "token", "add", "admin", "test", "-q").strip().split()[-1]
Path("token").write_text(token)
