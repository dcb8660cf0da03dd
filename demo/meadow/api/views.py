"""View sets of the API."""

from django.db.models import Prefetch, QuerySet
from rest_framework import mixins, permissions, viewsets
from rest_framework.serializers import Serializer

from meadow.catalog.filters import FarmFilter, ProductFilter
from meadow.catalog.models import Category, Farm, Product, Region, Review
from meadow.journal.models import Recipe
from meadow.journal.views import published_articles
from meadow.orders.models import Order

from . import serializers


class ProductViewSet(viewsets.ModelViewSet):
    filterset_class = ProductFilter
    search_fields = ["name", "description", "farm__name"]
    ordering_fields = ["name", "price", "listed_on"]
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet:
        products = Product.objects.listed().for_cards()
        if self.action == "list":
            return products
        approved = Review.objects.filter(is_approved=True).select_related("author")
        return products.select_related("farm__region").prefetch_related(
            "allergens",
            "farm__certifications",
            "farm__tags",
            Prefetch("reviews", queryset=approved),
        )

    def get_serializer_class(self) -> type[Serializer]:
        if self.action == "retrieve":
            return serializers.ProductDetailSerializer
        return serializers.ProductSerializer


class FarmViewSet(viewsets.ModelViewSet):
    serializer_class = serializers.FarmSerializer
    filterset_class = FarmFilter
    search_fields = ["name", "farmer"]
    ordering_fields = ["name", "founded", "hectares"]
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet:
        farms = Farm.objects.trading().with_product_counts()
        return farms.select_related("region").prefetch_related("certifications", "tags")


class CategoryViewSet(viewsets.ReadOnlyModelViewSet):
    serializer_class = serializers.CategorySerializer
    queryset = Category.objects.select_related("parent")
    search_fields = ["name"]
    filterset_fields = ["level"]
    lookup_field = "slug"
    pagination_class = None


class RegionViewSet(viewsets.ReadOnlyModelViewSet):
    serializer_class = serializers.RegionSerializer
    queryset = Region.objects.all()
    lookup_field = "slug"


class ArticleViewSet(viewsets.ReadOnlyModelViewSet):
    serializer_class = serializers.ArticleSerializer
    search_fields = ["title", "summary"]
    filterset_fields = ["contributor"]
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet:
        return published_articles()


class RecipeViewSet(viewsets.ReadOnlyModelViewSet):
    serializer_class = serializers.RecipeSerializer
    queryset = Recipe.objects.prefetch_related("steps", "ingredients__product")
    filterset_fields = ["difficulty"]
    search_fields = ["title"]
    lookup_field = "slug"


class OrderViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """The orders of whoever is signed in."""

    serializer_class = serializers.OrderSerializer
    permission_classes = [permissions.IsAuthenticated]
    filterset_fields = ["status"]
    lookup_field = "number"
    queryset = Order.objects.none()

    def get_queryset(self) -> QuerySet:
        orders = Order.objects.filter(customer__user=self.request.user)
        return (
            orders.with_totals()
            .select_related("collection_point")
            .prefetch_related("lines__product")
        )
