"""A package is uploaded, found, fetched, refused a second time, and removed."""

import io
import zipfile

from matrix.sites.browser import Browser


def wheel(name: str, version: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name}.py"), "value = 1\n" * 5000)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(zipfile.ZipInfo(f"{name}-{version}.dist-info/METADATA"), metadata)
    return file.getvalue()


def upload(browser: Browser, name: str, version: str) -> None:
    fields = {":action": "file_upload", "name": name, "version": version, "protocol_version": "1"}
    file = (f"{name}-{version}-py3-none-any.whl", wheel(name, version))
    browser.post("/", data=fields, files={"content": file})


def session(browser: Browser) -> None:
    name = "first" if browser.round == 1 else "second"
    upload(browser, name, "1.0")
    browser.http.auth = ("ann", "secret")
    upload(browser, name, "1.0")
    upload(browser, name, "1.0")
    upload(browser, name, "2.0")
    browser.get("/simple/")
    browser.get(f"/simple/{name}/")
    browser.get("/packages/")
    browser.many(f"/packages/{name}-1.0-py3-none-any.whl")
    browser.get("/simple/missing/")
    browser.post("/", data={":action": "remove_pkg", "name": name, "version": "1.0"})
    browser.get(f"/simple/{name}/")
    browser.post("/", data={":action": "doc_upload"})
