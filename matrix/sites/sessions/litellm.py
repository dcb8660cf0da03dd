"""Models are listed and asked, with and without a key, whole and as a stream."""

from matrix.sites.browser import Browser

KEY = {"Authorization": "Bearer sk-of-this-test-alone-0123456789abcdef"}


def session(browser: Browser) -> None:
    browser.many("/health/liveliness")
    browser.get("/health/readiness")
    browser.get("/v1/models")
    browser.get("/v1/models", headers=KEY)
    for number in range(6):
        asked = {"model": f"model-{number}", "messages": [{"role": "user", "content": "?"}]}
        browser.post("/v1/chat/completions", json=asked, headers=KEY)
    browser.post("/v1/chat/completions", json={**asked, "stream": True}, headers=KEY)
    browser.post("/v1/chat/completions", json={**asked, "model": "none"}, headers=KEY)
    browser.post("/v1/chat/completions", json={"model": "model-1"}, headers=KEY)
    browser.post("/v1/chat/completions", data="{", headers=KEY)
    browser.many("/v1/models", headers=KEY)
    browser.many("/model/info", headers=KEY)
    browser.get("/v1/model/info", headers=KEY)
    browser.post(
        "/utils/token_counter", json={"model": "model-1", "prompt": "one two"}, headers=KEY
    )
    browser.get("/key/info", headers=KEY)
    browser.get("/openapi.json")
    browser.get("/missing", headers=KEY)
