"""Admin of the journal."""

from django.contrib import admin
from simple_history.admin import SimpleHistoryAdmin

from .models import Article, Comment, Contributor, Event, Ingredient, Recipe, Step


class CommentInline(admin.TabularInline):
    model = Comment
    extra = 0
    fields = ["name", "email", "text", "is_approved"]


class IngredientInline(admin.TabularInline):
    model = Ingredient
    extra = 0
    autocomplete_fields = ["product"]


class StepInline(admin.StackedInline):
    model = Step
    extra = 0


@admin.register(Contributor)
class ContributorAdmin(admin.ModelAdmin):
    list_display = ["name"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Article)
class ArticleAdmin(SimpleHistoryAdmin):
    list_display = ["title", "contributor", "status", "published_at"]
    list_filter = ["status", "contributor", "published_at"]
    list_select_related = ["contributor"]
    search_fields = ["title", "summary", "body"]
    date_hierarchy = "published_at"
    prepopulated_fields = {"slug": ["title"]}
    autocomplete_fields = ["contributor", "products"]
    inlines = [CommentInline]


@admin.register(Comment)
class CommentAdmin(admin.ModelAdmin):
    list_display = ["name", "article", "written_at", "is_approved"]
    list_filter = ["is_approved", "written_at"]
    list_select_related = ["article"]
    search_fields = ["name", "text"]


@admin.register(Recipe)
class RecipeAdmin(admin.ModelAdmin):
    list_display = ["title", "contributor", "difficulty", "minutes", "servings"]
    list_filter = ["difficulty", "contributor"]
    list_select_related = ["contributor"]
    search_fields = ["title", "introduction"]
    prepopulated_fields = {"slug": ["title"]}
    autocomplete_fields = ["contributor"]
    inlines = [IngredientInline, StepInline]


@admin.register(Event)
class EventAdmin(admin.ModelAdmin):
    list_display = ["title", "farm", "starts_at", "places"]
    list_filter = ["farm__region"]
    list_select_related = ["farm"]
    search_fields = ["title", "farm__name"]
    date_hierarchy = "starts_at"
    autocomplete_fields = ["farm"]
