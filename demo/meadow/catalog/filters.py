"""Filters of the catalogue, shared by the pages and the API."""

import django_filters
from django.db.models import Q, QuerySet
from django.utils.dates import MONTHS
from django.utils.translation import gettext_lazy as _

from .models import Category, Certification, Farm, Product, Region, Unit


class ProductFilter(django_filters.FilterSet):
    q = django_filters.CharFilter(method="search", label=_("Search"))
    category = django_filters.ModelChoiceFilter(
        queryset=Category.objects.all(),
        to_field_name="slug",
        method="in_category",
        label=_("Category"),
    )
    region = django_filters.ModelChoiceFilter(
        field_name="farm__region",
        queryset=Region.objects.all(),
        to_field_name="slug",
        label=_("Region"),
    )
    unit = django_filters.ChoiceFilter(choices=Unit.choices, label=_("Sold by"))
    month = django_filters.ChoiceFilter(
        choices=list(MONTHS.items()), method="in_season", label=_("Season")
    )
    price = django_filters.RangeFilter(label=_("Price"))
    order = django_filters.OrderingFilter(
        fields={"name": "name", "price": "price", "listed_on": "listed"},
        label=_("Order"),
    )

    class Meta:
        model = Product
        fields: list[str] = []

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(name__icontains=value) | Q(farm__name__icontains=value))

    def in_category(self, queryset: QuerySet, name: str, value: Category) -> QuerySet:
        return queryset.in_category(value)

    def in_season(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.in_season(int(value))


class FarmFilter(django_filters.FilterSet):
    q = django_filters.CharFilter(field_name="name", lookup_expr="icontains", label=_("Search"))
    region = django_filters.ModelChoiceFilter(
        queryset=Region.objects.all(), to_field_name="slug", label=_("Region")
    )
    certification = django_filters.ModelMultipleChoiceFilter(
        field_name="certifications__slug",
        queryset=Certification.objects.all(),
        to_field_name="slug",
        label=_("Certification"),
    )

    class Meta:
        model = Farm
        fields: list[str] = []
