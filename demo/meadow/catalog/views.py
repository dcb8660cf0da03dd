"""Pages of farms, regions, categories and products."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.views.generic import CreateView, DetailView, ListView
from django_filters.views import FilterView

from meadow.orders.forms import AddToBasketForm

from .filters import FarmFilter, ProductFilter
from .forms import ReviewForm
from .models import Category, Farm, Product, Region, Review

PRODUCTS_A_PAGE = 24
FARMS_A_PAGE = 20


class ProductListView(FilterView):
    filterset_class = ProductFilter
    template_name = "catalog/product_list.html"
    context_object_name = "products"
    paginate_by = PRODUCTS_A_PAGE
    strict = False

    def get_queryset(self) -> QuerySet:
        return Product.objects.listed().for_cards()


class ProductDetailView(DetailView):
    context_object_name = "product"

    def get_queryset(self) -> QuerySet:
        approved = Review.objects.filter(is_approved=True).select_related("author")
        return (
            Product.objects.listed()
            .for_cards()
            .select_related("farm__region")
            .prefetch_related("allergens", "price_changes", Prefetch("reviews", queryset=approved))
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        related = Product.objects.listed().for_cards().filter(farm=self.object.farm)
        return super().get_context_data(
            related=related.exclude(pk=self.object.pk)[:4],
            ancestors=self.object.category.get_ancestors(include_self=True),
            basket_form=AddToBasketForm(),
            **kwargs,
        )


class CategoryDetailView(ListView):
    template_name = "catalog/category_detail.html"
    context_object_name = "products"
    paginate_by = PRODUCTS_A_PAGE

    @cached_property
    def category(self) -> Category:
        return get_object_or_404(Category, slug=self.kwargs["slug"])

    def get_queryset(self) -> QuerySet:
        return Product.objects.listed().for_cards().in_category(self.category)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            category=self.category,
            ancestors=self.category.get_ancestors(),
            children=self.category.get_children(),
            **kwargs,
        )


class FarmListView(FilterView):
    filterset_class = FarmFilter
    template_name = "catalog/farm_list.html"
    context_object_name = "farms"
    paginate_by = FARMS_A_PAGE
    strict = False

    def get_queryset(self) -> QuerySet:
        farms = Farm.objects.trading().with_product_counts()
        return farms.select_related("region").prefetch_related("certifications")


class FarmDetailView(DetailView):
    context_object_name = "farm"

    def get_queryset(self) -> QuerySet:
        return (
            Farm.objects.trading()
            .select_related("region")
            .prefetch_related("certifications", "tags", "events")
        )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        products = Product.objects.listed().for_cards().filter(farm=self.object)
        return super().get_context_data(products=products, **kwargs)


class RegionDetailView(DetailView):
    model = Region
    context_object_name = "region"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        farms = self.object.farms.trading().with_product_counts()
        return super().get_context_data(
            farms=farms.prefetch_related("certifications"),
            points=self.object.collection_points.prefetch_related("slots"),
            **kwargs,
        )


class ReviewCreateView(LoginRequiredMixin, CreateView):
    form_class = ReviewForm
    template_name = "catalog/review_form.html"

    @cached_property
    def product(self) -> Product:
        return get_object_or_404(Product.objects.listed(), slug=self.kwargs["slug"])

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(product=self.product, **kwargs)

    def form_valid(self, form: ReviewForm) -> Any:
        form.instance.product = self.product
        form.instance.author = self.request.user
        messages.success(self.request, _("Thank you. Your review will appear soon."))
        return super().form_valid(form)

    def get_success_url(self) -> str:
        return self.product.get_absolute_url()
