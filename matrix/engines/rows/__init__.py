"""The rows: one module an engine, each with an `ENGINE`. Found by their being here."""
