"""The requests of the load: what visitors and the office look at.

The list is made from the database, so each path leads to a row that is there.
No request changes anything.
"""

from django.contrib.auth.models import User
from django.db.models import Model
from django.urls import reverse
from taggit.models import Tag

from meadow.catalog.models import Category, Farm, Product, Region
from meadow.journal.models import Article, Event, Recipe
from meadow.journal.views import published_articles
from meadow.orders.models import Box, Order

from .people import STAFF_NAME


def load_paths() -> dict[str, list[str]]:
    """Paths with their query strings, by the part of the site they belong to."""
    return {
        "Pages": _pages(),
        "Catalogue": _catalogue(),
        "Journal": _journal(),
        "Customer": _customer(),
        "German": ["/de/", "/de/products/?page=2", "/de/boxes/"],
        "API": _api(),
        "Office": _office(),
    }


def _pages() -> list[str]:
    return [
        reverse("pages:home"),
        reverse("pages:about"),
        reverse("pages:contact"),
        reverse("pages:search") + "?q=carrots",
        "/sitemap.xml",
        "/static/meadow/site.css",
    ]


def _catalogue() -> list[str]:
    products = reverse("catalog:products")
    listed = list(Product.objects.listed().order_by("pk")[:40:13])
    farms = list(Farm.objects.trading().order_by("pk")[:2])
    return [
        products,
        f"{products}?page=3",
        f"{products}?q=apple&order=-price",
        f"{products}?category=vegetables&month=9&price_min=1&price_max=4",
        *(product.get_absolute_url() for product in listed),
        reverse("catalog:review", args=[listed[0].slug]),
        Category.objects.get(slug="vegetables").get_absolute_url() + "?page=2",
        Category.objects.get(slug="cheese").get_absolute_url(),
        reverse("catalog:farms"),
        reverse("catalog:farms") + "?certification=organic&page=1",
        *(farm.get_absolute_url() for farm in farms),
        Region.objects.order_by("pk")[0].get_absolute_url(),
        reverse("catalog:feed"),
    ]


def _journal() -> list[str]:
    articles = reverse("journal:articles")
    return [
        articles,
        f"{articles}?page=4",
        *(article.get_absolute_url() for article in published_articles()[:2]),
        reverse("journal:tag", args=[Tag.objects.get(name="hedgerows").slug]),
        reverse("journal:recipes"),
        Recipe.objects.order_by("pk")[0].get_absolute_url(),
        reverse("journal:events"),
        Event.objects.order_by("pk")[0].get_absolute_url(),
        reverse("journal:atom"),
    ]


def _customer() -> list[str]:
    order = Order.objects.filter(customer__user__username=STAFF_NAME).order_by("pk")[0]
    return [
        reverse("orders:basket"),
        reverse("orders:checkout"),
        reverse("orders:history"),
        order.get_absolute_url(),
        Box.objects.order_by("pk")[0].get_absolute_url(),
    ]


def _api() -> list[str]:
    products = reverse("api:product-list")
    farm = Farm.objects.trading().order_by("pk")[0]
    product = Product.objects.listed().order_by("pk")[0]
    return [
        f"{products}?page=2",
        f"{products}?search=honey&ordering=price",
        reverse("api:product-detail", args=[product.slug]),
        reverse("api:farm-list"),
        reverse("api:farm-detail", args=[farm.slug]),
        reverse("api:category-list"),
        reverse("api:recipe-list"),
        reverse("api:order-list") + "?status=collected",
    ]


def _office() -> list[str]:
    def change_list(model: type[Model]) -> str:
        return reverse(f"admin:{model._meta.label_lower.replace('.', '_')}_changelist")

    def change_form(row: Model) -> str:
        name = row._meta.label_lower.replace(".", "_")
        return reverse(f"admin:{name}_change", args=[row.pk])

    return [
        reverse("admin:index"),
        change_list(Product),
        f"{change_list(Product)}?q=cheddar&is_listed__exact=1",
        change_form(Product.objects.order_by("pk")[0]),
        change_list(Farm),
        change_form(Farm.objects.order_by("pk")[0]),
        change_list(Category),
        change_list(Order) + "?status__exact=placed",
        change_form(Order.objects.order_by("pk")[0]),
        change_form(Article.objects.order_by("pk")[0]),
        change_list(User),
    ]
