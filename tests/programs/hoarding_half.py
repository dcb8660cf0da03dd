"""Registers at its import, then writes a file: an import that is refused is half done."""

import hoarding_app

hoarding_app.register("requests_total")
with open("imported.txt", "a") as file:
    file.write("imported\n")
IS_WHOLE = True
