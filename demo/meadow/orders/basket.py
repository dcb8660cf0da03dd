"""The basket of a visitor: product ids and quantities in the session."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.contrib.sessions.backends.base import SessionBase

from meadow.catalog.models import Product

SESSION_KEY = "basket"


@dataclass(frozen=True, slots=True)
class BasketLine:
    product: Product
    quantity: int

    @property
    def total(self) -> Decimal:
        return self.quantity * self.product.price


class Basket:
    def __init__(self, session: SessionBase) -> None:
        self._session = session

    @property
    def _quantities(self) -> dict[str, int]:
        return self._session.get(SESSION_KEY, {})

    def __len__(self) -> int:
        return sum(self._quantities.values())

    def __iter__(self) -> Iterator[BasketLine]:
        quantities = self._quantities
        products = Product.objects.listed().select_related("farm")
        for product in products.filter(pk__in=quantities):
            yield BasketLine(product, quantities[str(product.pk)])

    @property
    def total(self) -> Decimal:
        return sum((line.total for line in self), start=Decimal(0))

    def add(self, product: Product, quantity: int) -> None:
        quantities = dict(self._quantities)
        key = str(product.pk)
        quantities[key] = quantities.get(key, 0) + quantity
        self._session[SESSION_KEY] = quantities

    def remove(self, product: Product) -> None:
        quantities = dict(self._quantities)
        quantities.pop(str(product.pk), None)
        self._session[SESSION_KEY] = quantities

    def clear(self) -> None:
        self._session.pop(SESSION_KEY, None)
