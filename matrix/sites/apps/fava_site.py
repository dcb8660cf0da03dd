"""Fava over one ledger."""

import os

from fava.application import create_app

application = create_app([f"{os.environ['SITE_DATA']}/books.beancount"])
