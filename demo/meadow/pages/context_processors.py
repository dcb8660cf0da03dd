"""What every page shows: the category menu, the languages and the basket."""

from typing import Any

from django.core.cache import cache
from django.http import HttpRequest
from django.utils.translation import get_language

from meadow.catalog.models import Category
from meadow.orders.basket import Basket


def _menu() -> list[dict[str, str]]:
    return [
        {"name": category.name, "url": category.get_absolute_url()}
        for category in Category.objects.root_nodes()
    ]


def navigation(request: HttpRequest) -> dict[str, Any]:
    menu = cache.get_or_set(f"menu:{get_language()}", _menu)
    return {"menu": menu, "site_name": "Meadow"}


def basket(request: HttpRequest) -> dict[str, Any]:
    return {"basket": Basket(request.session)}
