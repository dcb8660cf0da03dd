"""Rows behind Flask."""

import rows
from flask import Flask, abort, jsonify, request

application = Flask(__name__)


@application.route("/rows")
def read():
    """All rows."""
    return jsonify(rows.read())


@application.route("/rows", methods=["POST"])
def write():
    """A new row."""
    rows.write(request.args.get("text") or abort(422))
    return "made", 201


@application.route("/rows", methods=["DELETE"])
def clear():
    """Remove all rows."""
    rows.clear()
    return "removed"


@application.route("/jobs", methods=["POST"])
def start():
    """A row that a job writes."""
    rows.start(rows.write, request.args["text"])
    return "started", 202


@application.route("/fails")
def fails():
    """An error of the application."""
    raise ValueError("as it should")
