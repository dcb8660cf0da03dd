from django.urls import path

from . import views
from .feeds import JournalAtomFeed, JournalFeed

app_name = "journal"

urlpatterns = [
    path("journal/", views.ArticleListView.as_view(), name="articles"),
    path("journal/feed/", JournalFeed(), name="feed"),
    path("journal/atom/", JournalAtomFeed(), name="atom"),
    path("journal/tags/<slug:slug>/", views.TaggedArticleListView.as_view(), name="tag"),
    path("journal/<slug:slug>/", views.ArticleDetailView.as_view(), name="article"),
    path("journal/<slug:slug>/comment/", views.CommentCreateView.as_view(), name="comment"),
    path("recipes/", views.RecipeListView.as_view(), name="recipes"),
    path("recipes/<slug:slug>/", views.RecipeDetailView.as_view(), name="recipe"),
    path("events/", views.EventListView.as_view(), name="events"),
    path("events/<slug:slug>/", views.EventDetailView.as_view(), name="event"),
]
