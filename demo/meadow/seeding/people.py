"""Users: one of the staff, and the customers."""

from collections.abc import Sequence
from random import Random

from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from meadow.orders.models import CollectionPoint, Customer

from .dates import OPENING, day_since_opening, moment_on
from .vocabulary import FIRST_NAMES, LAST_NAMES

STAFF_NAME = "office"
STAFF_PASSWORD = "meadow"  # of the demonstration, published
PASSWORD_SALT = "published"
UNUSABLE_PASSWORD = "!seeded"

CUSTOMER_COUNT = 280


def create_staff(chance: Random) -> User:
    staff = User(
        username=STAFF_NAME,
        first_name="Olive",
        last_name="Underhill",
        email="office@meadow.example",
        password=make_password(STAFF_PASSWORD, salt=PASSWORD_SALT),
        is_staff=True,
        is_superuser=True,
        date_joined=moment_on(OPENING, chance),
    )
    staff.save()
    return staff


def create_customers(
    chance: Random, staff: User, points: Sequence[CollectionPoint]
) -> list[Customer]:
    """Makes the customers' accounts; the first of them is the staff's own."""
    full_names = [(first, last) for first in FIRST_NAMES for last in LAST_NAMES]
    users = User.objects.bulk_create(
        User(
            username=f"{first}.{last}".lower(),
            first_name=first,
            last_name=last,
            email=f"{first}.{last}@post.example".lower(),
            password=UNUSABLE_PASSWORD,
            date_joined=moment_on(day_since_opening(chance), chance),
        )
        for first, last in chance.sample(full_names, CUSTOMER_COUNT)
    )
    everybody = [staff, *users]
    EmailAddress.objects.bulk_create(
        EmailAddress(user=user, email=user.email, verified=True, primary=True) for user in everybody
    )
    return Customer.objects.bulk_create(
        Customer(
            user=user,
            phone=f"+44 7700 9{chance.randrange(100_000):05}",
            collection_point=chance.choice(points),
            wants_newsletter=chance.random() < 0.4,
        )
        for user in everybody
    )
