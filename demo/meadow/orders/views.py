"""Pages of the basket, the checkout, a customer's orders, and boxes."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.generic import CreateView, DetailView, ListView, TemplateView, View

from meadow.catalog.models import Product

from .basket import Basket
from .checkout import SoldOut, place_order
from .forms import AddToBasketForm, CheckoutForm, SubscriptionForm
from .models import Box, CollectionPoint, Customer, OrderLine

ORDERS_A_PAGE = 20


class BasketView(TemplateView):
    template_name = "orders/basket.html"


class BasketAddView(View):
    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        product = get_object_or_404(Product.objects.listed(), slug=slug)
        form = AddToBasketForm(request.POST)
        if form.is_valid():
            Basket(request.session).add(product, form.cleaned_data["quantity"])
            messages.success(request, _("Added to your basket."))
        else:
            messages.error(request, _("That quantity cannot be ordered."))
        return redirect(product)


class BasketRemoveView(View):
    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        Basket(request.session).remove(get_object_or_404(Product, slug=slug))
        return redirect("orders:basket")


class CustomerMixin(LoginRequiredMixin):
    """Pages of a customer; whoever signs in becomes one on the first visit."""

    def get_customer(self) -> Customer:
        return Customer.objects.get_or_create(user=self.request.user)[0]


class CheckoutView(CustomerMixin, CreateView):
    form_class = CheckoutForm
    template_name = "orders/checkout.html"

    def form_valid(self, form: CheckoutForm) -> HttpResponse:
        basket = Basket(self.request.session)
        if not basket:
            messages.error(self.request, _("Your basket is empty."))
            return redirect("orders:basket")
        try:
            return redirect(place_order(form.instance, self.get_customer(), basket))
        except SoldOut as problem:
            messages.error(self.request, _("%s is sold out.") % problem.product)
            return redirect("orders:basket")


class OrderListView(CustomerMixin, ListView):
    context_object_name = "orders"
    paginate_by = ORDERS_A_PAGE

    def get_queryset(self) -> QuerySet:
        orders = self.get_customer().orders.with_totals()
        return orders.select_related("collection_point")


class OrderDetailView(CustomerMixin, DetailView):
    context_object_name = "order"
    slug_field = slug_url_kwarg = "number"

    def get_queryset(self) -> QuerySet:
        lines = OrderLine.objects.select_related("product__farm")
        orders = self.get_customer().orders.with_totals()
        return orders.prefetch_related(Prefetch("lines", queryset=lines))


class CollectionPointListView(ListView):
    context_object_name = "points"
    queryset = CollectionPoint.objects.select_related("region").prefetch_related("slots")


class BoxListView(ListView):
    context_object_name = "boxes"
    queryset = Box.objects.prefetch_related("products")


class BoxDetailView(DetailView):
    context_object_name = "box"
    queryset = Box.objects.prefetch_related(
        Prefetch("products", queryset=Product.objects.for_cards())
    )


class SubscribeView(CustomerMixin, CreateView):
    form_class = SubscriptionForm
    template_name = "orders/subscription_form.html"
    success_url = reverse_lazy("orders:history")

    def get_initial(self) -> dict[str, Any]:
        box = Box.objects.filter(slug=self.request.GET.get("box", "")).first()
        return {"box": box}

    def form_valid(self, form: SubscriptionForm) -> HttpResponse:
        form.instance.customer = self.get_customer()
        form.instance.started_on = timezone.localdate()
        messages.success(self.request, _("Your first box is on its way."))
        return super().form_valid(form)
