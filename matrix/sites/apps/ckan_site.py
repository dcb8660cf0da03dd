"""CKAN out of its configuration, as the wsgi.py of its documentation makes it."""

import os

from ckan.cli import CKANConfigLoader
from ckan.config.middleware import make_app

application = make_app(CKANConfigLoader(os.environ["CKAN_INI"]).get_config())
