"""Admin of customers, orders and subscriptions."""

from decimal import Decimal

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from import_export import resources
from import_export.admin import ExportMixin
from simple_history.admin import SimpleHistoryAdmin

from .models import (
    Box,
    CollectionPoint,
    CollectionSlot,
    Customer,
    Order,
    OrderLine,
    Subscription,
)


class OrderResource(resources.ModelResource):
    class Meta:
        model = Order


class CollectionSlotInline(admin.TabularInline):
    model = CollectionSlot
    extra = 0


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    extra = 0
    autocomplete_fields = ["product"]


class SubscriptionInline(admin.TabularInline):
    model = Subscription
    extra = 0


@admin.register(CollectionPoint)
class CollectionPointAdmin(admin.ModelAdmin):
    list_display = ["name", "region", "address"]
    list_filter = ["region"]
    search_fields = ["name", "address"]
    prepopulated_fields = {"slug": ["name"]}
    inlines = [CollectionSlotInline]


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    list_display = ["__str__", "phone", "collection_point", "wants_newsletter"]
    list_filter = ["wants_newsletter", "collection_point"]
    list_select_related = ["user", "collection_point"]
    search_fields = ["user__first_name", "user__last_name", "user__email"]
    autocomplete_fields = ["user", "collection_point"]
    inlines = [SubscriptionInline]


@admin.register(Order)
class OrderAdmin(ExportMixin, SimpleHistoryAdmin):
    resource_classes = [OrderResource]
    list_display = ["number", "customer", "collection_point", "status", "placed_at", "sum"]
    list_filter = ["status", "collection_point", "placed_at"]
    list_select_related = ["customer__user", "collection_point"]
    list_per_page = 50
    search_fields = ["number", "customer__user__last_name", "customer__user__email"]
    date_hierarchy = "placed_at"
    autocomplete_fields = ["customer", "collection_point"]
    inlines = [OrderLineInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).with_totals()

    @admin.display(description=_("sum"), ordering="total")
    def sum(self, order: Order) -> Decimal | None:
        return order.total


@admin.register(Box)
class BoxAdmin(admin.ModelAdmin):
    list_display = ["name", "price"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}
    autocomplete_fields = ["products"]


@admin.register(Subscription)
class SubscriptionAdmin(admin.ModelAdmin):
    list_display = ["customer", "box", "frequency", "started_on", "is_active"]
    list_filter = ["is_active", "frequency", "box"]
    list_select_related = ["customer__user", "box"]
    autocomplete_fields = ["customer", "box"]
