"""Makes the whole market, topic by topic, from one seed."""

from random import Random

from django.contrib.sites.models import Site
from django.db import transaction

from . import farms, journal, orders, people, products
from .prose import Writer
from .session import create_staff_session
from .vocabulary import REGIONS, read_crops

SEED = 1759


@transaction.atomic
def seed_market() -> None:
    """Fills an empty, migrated database."""
    Site.objects.update_or_create(pk=1, defaults={"domain": "meadow.example", "name": "Meadow"})
    chance = Random(SEED)
    crops = read_crops()
    grown = [crop.name for crop in crops if crop.is_grown]
    writer = Writer(chance, grown, list(REGIONS))

    regions = farms.create_regions()
    certifications = farms.create_certifications()
    all_farms = farms.create_farms(chance, writer, regions, certifications)
    farms.create_events(chance, writer, all_farms)

    points = orders.create_collection_points(chance, regions)
    staff = people.create_staff(chance)
    customers = people.create_customers(chance, staff, points)

    categories = products.create_categories(writer)
    all_products = products.create_products(chance, writer, all_farms, crops, categories)
    products.create_price_changes(chance, all_products)
    reviewers = [customer.user for customer in customers]
    products.create_reviews(chance, writer, all_products, reviewers)

    contributors = journal.create_contributors(chance, writer)
    articles = journal.create_articles(chance, writer, contributors, all_products)
    journal.create_comments(chance, writer, articles)
    journal.create_recipes(chance, writer, contributors, all_products)

    orders.create_orders(chance, customers, points, all_products)
    boxes = orders.create_boxes(chance, writer, all_products)
    orders.create_subscriptions(chance, customers, boxes)
    orders.create_enquiries(chance, writer)

    create_staff_session(staff)
