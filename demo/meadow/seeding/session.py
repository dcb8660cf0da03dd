"""The prepared session of a member of staff, with something in the basket.

Its key and the secret key that signs it are published, so that the load carries
the same cookie everywhere. The site answers on loopback names only.
"""

from datetime import UTC, datetime

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core import signing

from meadow.catalog.models import Product
from meadow.orders.basket import SESSION_KEY as BASKET_SESSION_KEY

STAFF_SESSION_KEY = "meadowstaffsessionmeadowstaffses"
CSRF_COOKIE = "meadowcsrftokenmeadowcsrftokenme"
SIGNED_AT = datetime(2026, 3, 1, tzinfo=UTC)
EXPIRES_AT = datetime(2099, 12, 31, tzinfo=UTC)


class _FixedTimeSigner(signing.TimestampSigner):
    """Signs as sessions are signed, but always at the same moment."""

    def timestamp(self) -> str:
        return signing.b62_encode(int(SIGNED_AT.timestamp()))


def create_staff_session(staff: User) -> None:
    in_stock = Product.objects.listed().filter(stock__gt=0).order_by("pk")[:3]
    content = {
        SESSION_KEY: str(staff.pk),
        BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0],
        HASH_SESSION_KEY: staff.get_session_auth_hash(),
        BASKET_SESSION_KEY: {str(product.pk): 2 for product in in_stock},
    }
    signer = _FixedTimeSigner(salt=SessionStore().key_salt)
    Session.objects.update_or_create(
        session_key=STAFF_SESSION_KEY,
        defaults={
            "session_data": signer.sign_object(
                content, serializer=SessionStore().serializer, compress=True
            ),
            "expire_date": EXPIRES_AT,
        },
    )


def session_headers() -> list[str]:
    """The request headers of the load, one `Name: value` a string.

    They name the host, as a proxy would, so that links in answers hold no port.
    """
    cookies = {
        settings.SESSION_COOKIE_NAME: STAFF_SESSION_KEY,
        settings.CSRF_COOKIE_NAME: CSRF_COOKIE,
    }
    pairs = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return [f"Cookie: {pairs}", "Host: localhost", "Accept-Language: en-GB"]
