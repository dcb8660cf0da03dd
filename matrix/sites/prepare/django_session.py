"""A session of Django's for a user, without a form."""

from __future__ import annotations

from typing import Any


def log_in(user: Any, **more: object) -> str:
    """The cookie of a new session, as `name=value`.

    Args:
        more: what else the site's own form writes into a session.
    """
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import (
        BACKEND_SESSION_KEY,
        HASH_SESSION_KEY,
        SESSION_KEY,
        load_backend,
    )

    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = next(
        path for path in settings.AUTHENTICATION_BACKENDS if hasattr(load_backend(path), "get_user")
    )
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    for name, value in more.items():
        session[name] = value
    session.save()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"
