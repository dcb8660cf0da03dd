"""As much of Solr as CKAN asks for: documents are added, deleted, found and counted, in memory.

    python solr_standin.py FOLDER

Fields in a query are compared as a whole, words without a field are looked for in all texts, and
everything in a query has to hold, but for what "OR" separates. FOLDER gets the address.
"""

import json
import re
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SCHEMA = b'<schema name="ckan-2.12" version="1.6"></schema>'
DOCUMENTS = {}
LOCK = threading.Lock()
CLAUSE = re.compile(r'([+-]?)(?:(\w+):)?(\([^)]*\)|"[^"]*"|\[[^]]*\]|\S+)')


def values(document, field):
    """Values of one field, as texts."""
    found = document.get(field, [])
    return [str(one) for one in (found if isinstance(found, list) else [found])]


def holds(document, query):
    """Whether a document fits a query."""
    clauses = [found for found in CLAUSE.findall(query) if found[2] not in ("AND", "OR")]
    fits = [fits_clause(document, *clause) for clause in clauses]
    return any(fits) if " OR " in re.sub(r"\([^)]*\)", "", query) else all(fits)


def fits_clause(document, sign, field, text):
    """Whether a document fits one part of a query."""
    if text.startswith("(") and not field:
        found = holds(document, text[1:-1])
    else:
        wanted = [part.strip('"()') for part in text.strip("()").split(" OR ")]
        found = any(has(document, field, one) for one in wanted)
    return not found if sign == "-" else found


def has(document, field, text):
    """Whether a document has a value in a field, or a word anywhere."""
    if text.startswith("[") or text in ("*", "*:*"):
        return True
    if field and field != "text":
        return text in values(document, field)
    return any(text.lower() in one.lower() for name in document for one in values(document, name))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        place = urlsplit(self.path)
        if "/schema" in place.path:
            self.answer(SCHEMA, "application/xml")
        else:
            self.select(parse_qs(place.query))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if "/select" in self.path:
            self.select(parse_qs(body.decode()))
            return
        with LOCK:
            if "json" in self.headers.get("content-type", ""):
                for document in json.loads(body):
                    DOCUMENTS[document.get("index_id") or document["id"]] = document
            else:
                self.change(ElementTree.fromstring(body))
        self.answer(b'{"responseHeader": {"status": 0}}')

    def change(self, message):
        """Add or delete what a message in XML says."""
        for added in message.iter("doc"):
            document = {}
            for field in added:
                document.setdefault(field.get("name"), []).append(field.text or "")
            flat = {name: each[0] if len(each) == 1 else each for name, each in document.items()}
            DOCUMENTS[flat["index_id"]] = flat
        for query in message.iter("query"):
            for key in [key for key, one in DOCUMENTS.items() if holds(one, query.text)]:
                del DOCUMENTS[key]

    def select(self, asked):
        """Find documents, and count the values of their facets."""
        with LOCK:
            documents = sorted(DOCUMENTS.values(), key=lambda one: one.get("name", ""))
        queries = [*asked.get("q", []), *asked.get("fq", [])]
        found = [one for one in documents if all(holds(one, query) for query in queries)]
        start, rows = int(asked.get("start", ["0"])[0]), int(asked.get("rows", ["10"])[0])
        facets = {
            name: [part for pair in count.items() for part in pair]
            for name in asked.get("facet.field", [])
            for count in [Counter(value for one in found for value in values(one, name))]
        }
        answer = {
            "responseHeader": {"status": 0},
            "response": {"numFound": len(found), "start": start, "docs": found[start:][:rows]},
            "facet_counts": {"facet_fields": facets},
        }
        self.answer(json.dumps(answer).encode())

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = Path(folder) / "address.partial"
    address.write_text(f"http://127.0.0.1:{server.server_port}")
    address.rename(Path(folder) / "address")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
