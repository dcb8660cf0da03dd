from django.urls import path

from . import views
from .feeds import NewProductsFeed

app_name = "catalog"

urlpatterns = [
    path("products/", views.ProductListView.as_view(), name="products"),
    path("products/feed/", NewProductsFeed(), name="feed"),
    path("products/<slug:slug>/", views.ProductDetailView.as_view(), name="product"),
    path("products/<slug:slug>/review/", views.ReviewCreateView.as_view(), name="review"),
    path("categories/<slug:slug>/", views.CategoryDetailView.as_view(), name="category"),
    path("farms/", views.FarmListView.as_view(), name="farms"),
    path("farms/<slug:slug>/", views.FarmDetailView.as_view(), name="farm"),
    path("regions/<slug:slug>/", views.RegionDetailView.as_view(), name="region"),
]
