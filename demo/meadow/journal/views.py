"""Pages of articles, recipes and events."""

from typing import Any

from django.contrib import messages
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.views.generic import CreateView, DetailView, ListView
from taggit.models import Tag

from meadow.catalog.models import Product

from .forms import CommentForm
from .models import Article, Comment, Event, Ingredient, Recipe

ARTICLES_A_PAGE = 10
RECIPES_A_PAGE = 18


def published_articles() -> QuerySet:
    articles = Article.objects.filter(status=Article.Status.PUBLISHED)
    return articles.select_related("contributor").prefetch_related("tags")


class ArticleListView(ListView):
    context_object_name = "articles"
    paginate_by = ARTICLES_A_PAGE
    template_name = "journal/article_list.html"

    def get_queryset(self) -> QuerySet:
        return published_articles()


class TaggedArticleListView(ArticleListView):
    @cached_property
    def tag(self) -> Tag:
        return get_object_or_404(Tag, slug=self.kwargs["slug"])

    def get_queryset(self) -> QuerySet:
        return super().get_queryset().filter(tags=self.tag)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(tag=self.tag, **kwargs)


class ArticleDetailView(DetailView):
    context_object_name = "article"

    def get_queryset(self) -> QuerySet:
        approved = Comment.objects.filter(is_approved=True)
        return published_articles().prefetch_related(
            Prefetch("comments", queryset=approved),
            Prefetch("products", queryset=Product.objects.listed().for_cards()),
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(similar=self.object.tags.similar_objects()[:4], **kwargs)


class CommentCreateView(CreateView):
    form_class = CommentForm
    template_name = "journal/comment_form.html"

    @cached_property
    def article(self) -> Article:
        return get_object_or_404(published_articles(), slug=self.kwargs["slug"])

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(article=self.article, **kwargs)

    def form_valid(self, form: CommentForm) -> Any:
        form.instance.article = self.article
        messages.success(self.request, _("Thank you. Your comment will appear soon."))
        return super().form_valid(form)

    def get_success_url(self) -> str:
        return reverse("journal:article", args=[self.article.slug])


class RecipeListView(ListView):
    context_object_name = "recipes"
    paginate_by = RECIPES_A_PAGE

    def get_queryset(self) -> QuerySet:
        return Recipe.objects.select_related("contributor").prefetch_related("tags")


class RecipeDetailView(DetailView):
    context_object_name = "recipe"

    def get_queryset(self) -> QuerySet:
        ingredients = Ingredient.objects.select_related("product__farm")
        return Recipe.objects.select_related("contributor").prefetch_related(
            "tags", "steps", Prefetch("ingredients", queryset=ingredients)
        )


class EventListView(ListView):
    context_object_name = "events"
    queryset = Event.objects.select_related("farm__region")


class EventDetailView(DetailView):
    context_object_name = "event"
    queryset = Event.objects.select_related("farm__region")
