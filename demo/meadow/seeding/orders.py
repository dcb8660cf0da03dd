"""Collection points, orders, boxes, subscriptions and enquiries."""

from collections.abc import Sequence
from datetime import time
from decimal import Decimal
from random import Random

from django.utils.text import slugify
from simple_history.utils import bulk_create_with_history

from meadow.catalog.models import Product, Region
from meadow.orders.models import (
    Box,
    CollectionPoint,
    CollectionSlot,
    Customer,
    Order,
    OrderLine,
    Subscription,
)
from meadow.pages.models import Enquiry

from .dates import OPENING, day_since_opening, moment_on
from .prose import Writer
from .vocabulary import FIRST_NAMES, LAST_NAMES

ORDER_COUNT = 700
STAFF_ORDER_COUNT = 24
ENQUIRY_COUNT = 90
POINT_KINDS = ["Village hall", "Old dairy", "Railway arch", "Corner shop"]
BOXES = {"Small box": "12.50", "Family box": "21.00", "Fruit box": "15.00", "Feast": "48.00"}


def create_collection_points(chance: Random, regions: Sequence[Region]) -> list[CollectionPoint]:
    points = CollectionPoint.objects.bulk_create(
        CollectionPoint(
            name=f"{kind}, {region.name}",
            slug=slugify(f"{kind} {region.name}"),
            region=region,
            address=f"{chance.randint(1, 90)} {chance.choice(LAST_NAMES)} Lane",
        )
        for region in regions
        for kind in chance.sample(POINT_KINDS, 2)
    )
    CollectionSlot.objects.bulk_create(
        CollectionSlot(point=point, weekday=weekday, opens=time(opens), closes=time(opens + 3))
        for point in points
        for weekday in sorted(chance.sample(range(3, 7), 2))
        for opens in (8, 15)
    )
    return points


def create_orders(
    chance: Random,
    customers: Sequence[Customer],
    points: Sequence[CollectionPoint],
    products: Sequence[Product],
) -> list[Order]:
    """Makes orders of all customers; the first customer is sure to have some."""
    buyers = [customers[0]] * STAFF_ORDER_COUNT + [
        chance.choice(customers) for _ in range(ORDER_COUNT - STAFF_ORDER_COUNT)
    ]
    orders = bulk_create_with_history(
        [
            Order(
                number=f"M2025-{number:05}",
                customer=buyer,
                collection_point=chance.choice(points),
                status=chance.choice(Order.Status.values),
                placed_at=moment_on(day_since_opening(chance), chance),
            )
            for number, buyer in enumerate(buyers, start=1)
        ],
        Order,
        default_date=moment_on(OPENING, chance),
    )
    OrderLine.objects.bulk_create(
        OrderLine(
            order=order,
            product=product,
            quantity=chance.randint(1, 6),
            unit_price=product.price,
        )
        for order in orders
        for product in chance.sample(products, chance.randint(1, 5))
    )
    return orders


def create_boxes(chance: Random, writer: Writer, products: Sequence[Product]) -> list[Box]:
    boxes = Box.objects.bulk_create(
        Box(
            name=name,
            slug=slugify(name),
            description=writer.paragraph(2, 3),
            price=Decimal(price),
        )
        for name, price in BOXES.items()
    )
    through = Box.products.through
    through.objects.bulk_create(
        through(box=box, product=product) for box in boxes for product in chance.sample(products, 9)
    )
    return boxes


def create_subscriptions(
    chance: Random, customers: Sequence[Customer], boxes: Sequence[Box]
) -> None:
    Subscription.objects.bulk_create(
        Subscription(
            customer=customer,
            box=chance.choice(boxes),
            frequency=chance.choice(Subscription.Frequency.values),
            started_on=day_since_opening(chance),
            is_active=chance.random() < 0.8,
        )
        for customer in customers
        if chance.random() < 0.3
    )


def create_enquiries(chance: Random, writer: Writer) -> None:
    names = [chance.choice(FIRST_NAMES) for _ in range(ENQUIRY_COUNT)]
    Enquiry.objects.bulk_create(
        Enquiry(
            topic=chance.choice(Enquiry.Topic.values),
            name=name,
            email=f"{name.lower()}@post.example",
            message=writer.paragraph(2, 4),
            sent_at=moment_on(day_since_opening(chance), chance),
            is_answered=chance.random() < 0.7,
        )
        for name in names
    )
