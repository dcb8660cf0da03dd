from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from import_export import resources
from import_export.admin import ImportExportModelAdmin
from mptt.admin import TreeRelatedFieldListFilter
from simple_history.admin import SimpleHistoryAdmin

from ..models import Allergen, PriceChange, Product, Review


class ProductResource(resources.ModelResource):
    class Meta:
        model = Product
        import_id_fields = ["slug"]
        exclude = ["id", "tags"]


class PriceChangeInline(admin.TabularInline):
    model = PriceChange
    extra = 1


class ReviewInline(admin.StackedInline):
    model = Review
    extra = 0
    fields = ["author", "rating", "title", "text", "is_approved"]
    raw_id_fields = ["author"]


class StockFilter(admin.SimpleListFilter):
    title = _("stock")
    parameter_name = "stock"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list:
        return [("out", _("sold out")), ("low", _("running low")), ("ok", _("plenty"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        match self.value():
            case "out":
                return queryset.filter(stock=0)
            case "low":
                return queryset.filter(stock__range=(1, 9))
            case "ok":
                return queryset.filter(stock__gte=10)
        return queryset


@admin.register(Allergen)
class AllergenAdmin(admin.ModelAdmin):
    list_display = ["code", "name"]
    search_fields = ["name"]


@admin.register(Product)
class ProductAdmin(ImportExportModelAdmin, SimpleHistoryAdmin):
    resource_classes = [ProductResource]
    list_display = ["name", "farm", "category", "price", "unit", "stock", "is_listed"]
    list_editable = ["is_listed"]
    list_filter = [
        "is_listed",
        StockFilter,
        ("category", TreeRelatedFieldListFilter),
        "unit",
        "farm__region",
    ]
    list_select_related = ["farm", "category"]
    list_per_page = 50
    search_fields = ["name", "farm__name", "description"]
    date_hierarchy = "listed_on"
    prepopulated_fields = {"slug": ["name"]}
    filter_horizontal = ["allergens"]
    autocomplete_fields = ["farm"]
    inlines = [PriceChangeInline, ReviewInline]
    actions = ["withdraw"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "farm", "category", "description"]}),
        (_("Sale"), {"fields": [("price", "unit", "stock"), "is_listed", "listed_on"]}),
        (_("Season"), {"fields": [("season_start", "season_end")]}),
        (_("More"), {"fields": ["allergens", "tags"]}),
    ]

    @admin.action(description=_("Withdraw from sale"))
    def withdraw(self, request: HttpRequest, queryset: QuerySet) -> None:
        count = queryset.update(is_listed=False)
        text = ngettext("%d product withdrawn.", "%d products withdrawn.", count)
        self.message_user(request, text % count)
