"""Fixed dates: the day on which the seeded market stands still."""

from datetime import UTC, date, datetime, timedelta
from random import Random

TODAY = date(2026, 3, 1)
OPENING = date(2022, 4, 1)


def day_since_opening(chance: Random, *, latest: date = TODAY) -> date:
    """A day between the market's opening and `latest`."""
    return OPENING + timedelta(days=chance.randrange((latest - OPENING).days))


def moment_on(day: date, chance: Random) -> datetime:
    """A minute of that day between 7:00 and 21:59 UTC."""
    return datetime(
        day.year,
        day.month,
        day.day,
        chance.randint(7, 21),
        chance.randrange(60),
        tzinfo=UTC,
    )
