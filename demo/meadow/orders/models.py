"""Customers, where they collect, what they ordered and subscribed to.

The basket is not a model: it lives in the session (see basket.py).
"""

from decimal import Decimal

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from meadow.catalog.models import Product, Region


class CollectionPoint(models.Model):
    name = models.CharField(_("name"), max_length=120, unique=True)
    slug = models.SlugField(unique=True, max_length=140)
    region = models.ForeignKey(
        Region,
        on_delete=models.PROTECT,
        related_name="collection_points",
        verbose_name=_("region"),
    )
    address = models.CharField(_("address"), max_length=200)

    class Meta:
        ordering = ["name"]
        verbose_name = _("collection point")
        verbose_name_plural = _("collection points")

    def __str__(self) -> str:
        return self.name


class CollectionSlot(models.Model):
    point = models.ForeignKey(CollectionPoint, on_delete=models.CASCADE, related_name="slots")
    weekday = models.PositiveSmallIntegerField(_("weekday"), choices=list(WEEKDAYS.items()))
    opens = models.TimeField(_("opens"))
    closes = models.TimeField(_("closes"))

    class Meta:
        ordering = ["weekday", "opens"]
        verbose_name = _("collection slot")
        verbose_name_plural = _("collection slots")

    def __str__(self) -> str:
        return f"{self.get_weekday_display()} {self.opens:%H:%M}–{self.closes:%H:%M}"


class Customer(models.Model):
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="customer"
    )
    phone = models.CharField(_("phone"), max_length=30, blank=True)
    collection_point = models.ForeignKey(
        CollectionPoint,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="customers",
        verbose_name=_("collection point"),
    )
    wants_newsletter = models.BooleanField(_("newsletter"), default=False)

    class Meta:
        ordering = ["user__last_name", "user__first_name", "pk"]
        verbose_name = _("customer")
        verbose_name_plural = _("customers")

    def __str__(self) -> str:
        return self.user.get_full_name() or self.user.get_username()


class OrderQuerySet(models.QuerySet):
    def with_totals(self) -> "OrderQuerySet":
        line_total = models.F("lines__quantity") * models.F("lines__unit_price")
        return self.annotate(
            total=models.Sum(line_total, output_field=models.DecimalField(decimal_places=2)),
            line_count=models.Count("lines"),
        ).order_by("-placed_at", "pk")


class Order(models.Model):
    class Status(models.TextChoices):
        PLACED = "placed", _("placed")
        PACKED = "packed", _("packed")
        COLLECTED = "collected", _("collected")
        CANCELLED = "cancelled", _("cancelled")

    number = models.CharField(_("number"), max_length=12, unique=True)
    customer = models.ForeignKey(
        Customer,
        on_delete=models.PROTECT,
        related_name="orders",
        verbose_name=_("customer"),
    )
    collection_point = models.ForeignKey(
        CollectionPoint,
        on_delete=models.PROTECT,
        related_name="orders",
        verbose_name=_("collection point"),
    )
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.PLACED
    )
    placed_at = models.DateTimeField(_("placed at"), default=timezone.now)
    note = models.TextField(_("note"), blank=True)

    history = HistoricalRecords()
    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ["-placed_at", "pk"]
        verbose_name = _("order")
        verbose_name_plural = _("orders")

    def __str__(self) -> str:
        return self.number

    def get_absolute_url(self) -> str:
        return reverse("orders:order", args=[self.number])


class OrderLine(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(
        Product,
        on_delete=models.PROTECT,
        related_name="order_lines",
        verbose_name=_("product"),
    )
    quantity = models.PositiveSmallIntegerField(_("quantity"), validators=[MinValueValidator(1)])
    unit_price = models.DecimalField(_("unit price"), max_digits=7, decimal_places=2)

    class Meta:
        ordering = ["pk"]
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"

    @property
    def total(self) -> Decimal:
        return self.quantity * self.unit_price


class Box(models.Model):
    name = models.CharField(_("name"), max_length=80, unique=True)
    slug = models.SlugField(unique=True)
    description = models.TextField(_("description"), help_text=_("Markdown."))
    price = models.DecimalField(_("price"), max_digits=6, decimal_places=2)
    products = models.ManyToManyField(Product, related_name="boxes", verbose_name=_("products"))

    class Meta:
        ordering = ["price"]
        verbose_name = _("box")
        verbose_name_plural = _("boxes")

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("orders:box", args=[self.slug])


class Subscription(models.Model):
    class Frequency(models.TextChoices):
        WEEKLY = "weekly", _("weekly")
        FORTNIGHTLY = "fortnightly", _("fortnightly")
        MONTHLY = "monthly", _("monthly")

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="subscriptions")
    box = models.ForeignKey(Box, on_delete=models.PROTECT, related_name="subscriptions")
    frequency = models.CharField(_("frequency"), max_length=12, choices=Frequency.choices)
    started_on = models.DateField(_("started on"))
    is_active = models.BooleanField(_("active"), default=True)

    class Meta:
        ordering = ["-started_on", "pk"]
        verbose_name = _("subscription")
        verbose_name_plural = _("subscriptions")

    def __str__(self) -> str:
        return f"{self.box} ({self.get_frequency_display()})"
