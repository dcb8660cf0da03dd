"""The RSS feed of new products."""

from datetime import datetime, time

from django.contrib.syndication.views import Feed
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from .models import Product


class NewProductsFeed(Feed):
    title = _("New on Meadow")
    description = _("What the farms have added to the market.")
    item_count = 30

    def link(self) -> str:
        return reverse("catalog:products")

    def items(self) -> QuerySet:
        products = Product.objects.listed().for_cards()
        return products.order_by("-listed_on", "pk")[: self.item_count]

    def item_description(self, item: Product) -> str:
        return item.description

    def item_pubdate(self, item: Product) -> datetime:
        return timezone.make_aware(datetime.combine(item.listed_on, time.min))

    def item_categories(self, item: Product) -> list[str]:
        return [tag.name for tag in item.tags.all()]
