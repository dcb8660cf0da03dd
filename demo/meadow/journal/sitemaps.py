from datetime import datetime

from django.contrib.sitemaps import Sitemap
from django.db.models import QuerySet

from .models import Article, Recipe
from .views import published_articles


class ArticleSitemap(Sitemap):
    changefreq = "never"

    def items(self) -> QuerySet:
        return published_articles()

    def lastmod(self, item: Article) -> datetime:
        return item.published_at


class RecipeSitemap(Sitemap):
    changefreq = "never"

    def items(self) -> QuerySet:
        return Recipe.objects.all()

    def lastmod(self, item: Recipe) -> datetime:
        return item.published_at
