from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from import_export import resources
from import_export.admin import ImportExportModelAdmin
from simple_history.admin import SimpleHistoryAdmin

from meadow.journal.models import Event

from ..models import Certification, Farm, Region


class FarmResource(resources.ModelResource):
    class Meta:
        model = Farm
        import_id_fields = ["slug"]
        exclude = ["id", "tags"]


class EventInline(admin.TabularInline):
    model = Event
    extra = 0
    fields = ["title", "slug", "starts_at", "places"]


@admin.register(Region)
class RegionAdmin(admin.ModelAdmin):
    list_display = ["name", "farm_count"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(farm_count=Count("farms"))

    @admin.display(description=_("farms"), ordering="farm_count")
    def farm_count(self, region: Region) -> int:
        return region.farm_count


@admin.register(Certification)
class CertificationAdmin(admin.ModelAdmin):
    list_display = ["name", "issuer"]
    search_fields = ["name", "issuer"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Farm)
class FarmAdmin(ImportExportModelAdmin, SimpleHistoryAdmin):
    resource_classes = [FarmResource]
    list_display = ["name", "farmer", "region", "hectares", "joined_on", "is_trading"]
    list_filter = ["is_trading", "region", "certifications", "joined_on"]
    list_select_related = ["region"]
    list_per_page = 50
    search_fields = ["name", "farmer", "story"]
    date_hierarchy = "joined_on"
    prepopulated_fields = {"slug": ["name"]}
    filter_horizontal = ["certifications"]
    autocomplete_fields = ["region"]
    inlines = [EventInline]
    fieldsets = [
        (None, {"fields": ["name", "slug", "farmer", "region", "is_trading"]}),
        (_("About"), {"fields": ["story", "founded", "hectares", "certifications"]}),
        (_("Contact"), {"fields": ["email", "website", "joined_on", "tags"]}),
        (_("Place"), {"classes": ["collapse"], "fields": [("latitude", "longitude")]}),
    ]
