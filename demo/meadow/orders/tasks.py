"""What the site does apart from requests."""

from celery import shared_task
from django.db.models import Count
from django.template.loader import render_to_string

from meadow.catalog.models import Product
from meadow.orders.models import Order


@shared_task
def write_receipt(number: str) -> str:
    """The page of an order, as it goes to the customer."""
    order = Order.objects.with_totals().get(number=number)
    return render_to_string("orders/receipt.txt", {"order": order})


@shared_task
def count_stock() -> dict[str, int]:
    """How many products each farm has listed; beat sends it."""
    listed = Product.objects.filter(is_listed=True).values_list("farm__name")
    return dict(listed.annotate(count=Count("pk")))
