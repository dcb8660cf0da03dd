"""The journal as RSS and Atom."""

from datetime import datetime

from django.contrib.syndication.views import Feed
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.translation import gettext_lazy as _

from .models import Article
from .views import published_articles


class JournalFeed(Feed):
    title = _("The Meadow journal")
    description = _("News from the farms.")
    item_count = 20

    def link(self) -> str:
        return reverse("journal:articles")

    def items(self) -> QuerySet:
        return published_articles()[: self.item_count]

    def item_description(self, item: Article) -> str:
        return item.summary

    def item_pubdate(self, item: Article) -> datetime:
        return item.published_at

    def item_author_name(self, item: Article) -> str:
        return item.contributor.name


class JournalAtomFeed(JournalFeed):
    feed_type = Atom1Feed
    subtitle = JournalFeed.description
