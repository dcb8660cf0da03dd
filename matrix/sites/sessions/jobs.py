"""Jobs are enqueued, some fail, some are tried again, one gathers others."""

from matrix.sites.browser import Browser


def session(browser: Browser) -> None:
    browser.get("/")
    jobs = {
        **{f"total {key}": ("total", [key]) for key in range(12)},
        "chord": ("chord", []),
        "fails": ("fails", []),
        "fails twice": ("fails_twice", []),
        "sleeps": ("sleeps", [0.5]),
    }
    started = {}
    for label, (name, arguments) in jobs.items():
        answer = browser.post(f"/jobs/{name}", json=arguments)
        started[label] = answer.json()["id"]
    for label, job in started.items():
        browser.until(f"{label} is done", lambda job=job: is_done(browser, job))
        found = browser.http.get(f"{browser.base}/jobs/{job}").json()
        browser.note(f"result of {label}", 0, f"{found['state']} {found['result']}", masked=True)


def is_done(browser: Browser, job: str) -> bool:
    found = browser.http.get(f"{browser.base}/jobs/{job}").json()
    return found["state"] in ("SUCCESS", "FAILURE")
