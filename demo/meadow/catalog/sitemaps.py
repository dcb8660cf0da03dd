from datetime import date

from django.contrib.sitemaps import Sitemap
from django.db.models import QuerySet

from .models import Category, Farm, Product


class ProductSitemap(Sitemap):
    changefreq = "weekly"
    priority = 0.6

    def items(self) -> QuerySet:
        return Product.objects.listed()

    def lastmod(self, item: Product) -> date:
        return item.listed_on


class FarmSitemap(Sitemap):
    changefreq = "monthly"
    priority = 0.7

    def items(self) -> QuerySet:
        return Farm.objects.trading()


class CategorySitemap(Sitemap):
    changefreq = "monthly"
    priority = 0.5

    def items(self) -> QuerySet:
        return Category.objects.all()
