from django.urls import include, path
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.routers import DefaultRouter

from . import views

app_name = "api"

router = DefaultRouter()
router.register("products", views.ProductViewSet, basename="product")
router.register("farms", views.FarmViewSet, basename="farm")
router.register("categories", views.CategoryViewSet)
router.register("regions", views.RegionViewSet)
router.register("articles", views.ArticleViewSet, basename="article")
router.register("recipes", views.RecipeViewSet)
router.register("orders", views.OrderViewSet)

urlpatterns = [
    path("", include(router.urls)),
    path("schema/", SpectacularJSONAPIView.as_view(), name="schema"),
]
