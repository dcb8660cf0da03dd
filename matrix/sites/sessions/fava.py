"""A ledger is read, filtered, added to and changed in the editor."""

from matrix.sites.browser import Browser


def entry(narration: str) -> dict[str, object]:
    return {
        "t": "Transaction", "date": "2025-12-30", "flag": "*", "payee": "", "narration": narration,
        "tags": [], "links": [], "meta": {},
        "postings": [
            {"account": "Expenses:Food", "amount": "3 EUR"}, {"account": "Assets:Bank", "amount": ""},
        ],
    }  # fmt: skip


def session(browser: Browser) -> None:
    browser.get("/")
    browser.get("/books/income_statement/")
    browser.get("/books/api/income_statement?time=2025-03")
    browser.get("/books/api/journal?account=Expenses:Food")
    browser.get("/books/api/changed")
    browser.put("/books/api/add_entries", json={"entries": [entry(f"added {browser.round}")]})
    browser.put("/books/api/add_entries", json={"entries": [{"t": "Nothing"}]})
    browser.get("/books/api/errors")
    browser.get("/books/api/journal?filter=added")
    browser.many("/books/api/income_statement")
    source = browser.get("/books/api/source?filename=")
    browser.get("/books/api/query?query_string=select account, sum(position) group by account")
    browser.get("/books/api/query?query_string=select nonsense from")
    browser.get(
        "/books/download-query/query_result.csv?query_string=select account, sum(position) group by 1"
    )
    browser.note("source", source.status_code, "")
