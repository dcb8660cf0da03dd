"""Writes the pages in docs/ that are made out of the source and README.md: `make pages`.

Run it with the Python of an environment that has pasture-image installed, on CPython 3.14.
"""

import readme
import reference
import settings

for module in (settings, reference):
    module.PAGE.write_text(module.page())
readme.main()
