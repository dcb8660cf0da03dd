from django.contrib import admin
from mptt.admin import DraggableMPTTAdmin

from ..models import Category


@admin.register(Category)
class CategoryAdmin(DraggableMPTTAdmin):
    list_display = ["tree_actions", "indented_title", "slug"]
    list_display_links = ["indented_title"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}
