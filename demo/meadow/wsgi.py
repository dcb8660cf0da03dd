"""The WSGI application, `meadow.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "meadow.settings")

application = get_wsgi_application()
