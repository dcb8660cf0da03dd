from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ..models import Review


@admin.register(Review)
class ReviewAdmin(admin.ModelAdmin):
    list_display = ["title", "product", "author", "rating", "written_at", "is_approved"]
    list_filter = ["is_approved", "rating", "written_at"]
    list_select_related = ["product", "author"]
    search_fields = ["title", "text", "product__name"]
    date_hierarchy = "written_at"
    autocomplete_fields = ["product", "author"]
    actions = ["approve"]

    @admin.action(description=_("Approve"))
    def approve(self, request: HttpRequest, queryset: QuerySet) -> None:
        queryset.update(is_approved=True)
