"""Regions, certifications, farms and their events."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from random import Random

from django.utils.text import slugify
from simple_history.utils import bulk_create_with_history

from meadow.catalog.models import Certification, Farm, Region
from meadow.journal.models import Event

from .dates import OPENING, TODAY, day_since_opening, moment_on
from .prose import Writer
from .tags import attach_tags
from .vocabulary import (
    CERTIFICATIONS,
    FARM_KINDS,
    FARM_PLACES,
    FARM_TAGS,
    FIRST_NAMES,
    LAST_NAMES,
    REGIONS,
)

FARM_COUNT = 64
EVENT_COUNT = 48
EVENT_KINDS = ["Open day", "Orchard walk", "Lambing weekend", "Seed swap", "Harvest supper"]


def create_regions() -> list[Region]:
    return Region.objects.bulk_create(
        Region(name=name, slug=slugify(name), summary=summary) for name, summary in REGIONS.items()
    )


def create_certifications() -> list[Certification]:
    return Certification.objects.bulk_create(
        Certification(name=name, slug=slugify(name), issuer=issuer, description=description)
        for name, (issuer, description) in CERTIFICATIONS.items()
    )


def create_farms(
    chance: Random,
    writer: Writer,
    regions: Sequence[Region],
    certifications: Sequence[Certification],
) -> list[Farm]:
    names = [f"{place} {kind}" for place in FARM_PLACES for kind in FARM_KINDS]
    farms = bulk_create_with_history(
        [
            _farm(chance, writer, name, chance.choice(regions))
            for name in chance.sample(names, FARM_COUNT)
        ],
        Farm,
        default_date=moment_on(OPENING, chance),
    )
    through = Farm.certifications.through
    through.objects.bulk_create(
        through(farm=farm, certification=certification)
        for farm in farms
        for certification in chance.sample(certifications, chance.randint(0, 3))
    )
    attach_tags(chance, farms, FARM_TAGS, most=2)
    return farms


def _farm(chance: Random, writer: Writer, name: str, region: Region) -> Farm:
    slug = slugify(name)
    return Farm(
        name=name,
        slug=slug,
        region=region,
        farmer=f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}",
        founded=chance.randint(1790, 2019),
        hectares=Decimal(chance.randint(8, 4200)) / 10,
        story=writer.article(),
        email=f"hello@{slug}.example",
        website=f"https://{slug}.example/",
        latitude=Decimal(chance.randint(5030000, 5440000)) / 100_000,
        longitude=Decimal(chance.randint(-440000, 140000)) / 100_000,
        joined_on=day_since_opening(chance),
        is_trading=chance.random() < 0.94,
    )


def create_events(chance: Random, writer: Writer, farms: Sequence[Farm]) -> list[Event]:
    trading = [farm for farm in farms if farm.is_trading]
    hosts = [chance.choice(trading) for _ in range(EVENT_COUNT)]
    return Event.objects.bulk_create(
        Event(
            title=f"{chance.choice(EVENT_KINDS)} at {host.name}",
            slug=f"{slugify(host.name)}-{number}",
            farm=host,
            starts_at=moment_on(TODAY + timedelta(days=7 * number), chance),
            places=chance.randint(6, 60),
            description=writer.paragraph(),
        )
        for number, host in enumerate(hosts)
    )
