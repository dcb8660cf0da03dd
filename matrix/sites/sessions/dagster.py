"""Jobs are launched and looked at by GraphQL; some of their steps end their processes."""

from typing import Any

from matrix.sites.browser import Browser

LAUNCH = """mutation ($job: String!) { launchRun(executionParams: {mode: "default", selector: {
    repositoryLocationName: "jobs", repositoryName: "__repository__", jobName: $job}}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
RUN = """query ($run: ID!) { runOrError(runId: $run) { __typename ... on Run { status
    stepStats { stepKey status } } } }"""
EVENTS = """query ($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    ... on ExecutionStepFailureEvent { stepKey error { message } } } } } }"""
JOBS = (
    """{ repositoriesOrError { ... on RepositoryConnection { nodes { name jobs { name } } } } }"""
)


def session(browser: Browser) -> None:
    # A worker that has served its number of requests closes connections that are kept.
    browser.http.headers["Connection"] = "close"
    browser.get("/server_info")
    browser.many("/server_info")
    browser.get("/")
    asked = {"json": {"query": JOBS}}
    browser.until("the code is loaded", lambda: "sums" in browser.http.post(browser.base + "/graphql", **asked).text)  # fmt: skip
    browser.post("/graphql", **asked)
    for job in ("sums", "leaving", "dropping"):
        answer = ask(browser, LAUNCH, job=job)
        launched = answer["data"]["launchRun"]
        browser.note(f"launch of {job}", 0, launched["__typename"], masked=True)
        run = launched["run"]["runId"]
        browser.until(f"{job} has ended", lambda run=run: has_ended(browser, run), timeout_s=120)
        browser.note(f"run of {job}", 0, state(browser, run))
        found = ask(browser, EVENTS, run=run)["data"]["logsForRun"]["events"]
        browser.note(f"failures of {job}", 0, str([one for one in found if one]))
    browser.post("/graphql", json={"query": "{ nonsense }"})
    browser.post("/graphql", json={"query": "{ runsOrError { ... on Runs { count } } }"})
    browser.get("/dagit/notebook?path=none")


def ask(browser: Browser, query: str, **variables: str) -> dict[str, Any]:
    body = {"query": query, "variables": variables}
    answer: dict[str, Any] = browser.http.post(browser.base + "/graphql", json=body).json()
    return answer


def state(browser: Browser, run: str) -> str:
    """The state of a run and of its steps, by name: which step is first is not said."""
    found = ask(browser, RUN, run=run)["data"]["runOrError"]
    steps = sorted(f"{one['stepKey']} {one['status']}" for one in found["stepStats"])
    return f"{found['status']}: {', '.join(steps)}"


def has_ended(browser: Browser, run: str) -> bool:
    found = ask(browser, RUN, run=run)["data"]["runOrError"]
    return found.get("status") in ("SUCCESS", "FAILURE", "CANCELED")
