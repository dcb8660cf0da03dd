"""Turns a basket into an order."""

from django.db import transaction
from django.db.models import F, Max
from django.utils import timezone

from meadow.catalog.models import Product

from .basket import Basket
from .models import Customer, Order, OrderLine


class SoldOut(Exception):
    """A product of the basket is no longer in stock in the quantity wanted."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.name)
        self.product = product


def next_order_number() -> str:
    year = timezone.localdate().year
    latest = Order.objects.filter(number__startswith=f"M{year}-")
    number = latest.aggregate(Max("number"))["number__max"] or f"M{year}-00000"
    return f"M{year}-{int(number.partition('-')[2]) + 1:05}"


@transaction.atomic
def place_order(order: Order, customer: Customer, basket: Basket) -> Order:
    """Saves `order` with a line for each of the basket's, and empties the basket.

    Raises:
        SoldOut: nothing was saved, and the basket is as it was.
    """
    order.customer = customer
    order.number = next_order_number()
    order.save()
    for line in basket:
        OrderLine.objects.create(
            order=order,
            product=line.product,
            quantity=line.quantity,
            unit_price=line.product.price,
        )
        in_stock = Product.objects.filter(pk=line.product.pk, stock__gte=line.quantity)
        if not in_stock.update(stock=F("stock") - line.quantity):
            raise SoldOut(line.product)
    basket.clear()
    return order
