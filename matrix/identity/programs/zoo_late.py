"""Imported by the first request."""

import zoo

at_import = zoo.take()
