"""Products and the course of their prices."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.urls import reverse
from django.utils.dates import MONTHS
from django.utils.translation import gettext_lazy as _
from mptt.models import TreeForeignKey
from simple_history.models import HistoricalRecords
from taggit.managers import TaggableManager

from .farms import Farm
from .taxonomy import Category

MONTH_RANGE = [MinValueValidator(1), MaxValueValidator(12)]


class Unit(models.TextChoices):
    KILOGRAM = "kg", _("kilogram")
    PIECE = "piece", _("piece")
    BUNCH = "bunch", _("bunch")
    JAR = "jar", _("jar")
    LITRE = "litre", _("litre")
    DOZEN = "dozen", _("dozen")


class Allergen(models.Model):
    name = models.CharField(_("name"), max_length=60, unique=True)
    code = models.CharField(_("code"), max_length=3, unique=True)

    class Meta:
        ordering = ["code"]
        verbose_name = _("allergen")
        verbose_name_plural = _("allergens")

    def __str__(self) -> str:
        return self.name


class ProductQuerySet(models.QuerySet):
    def listed(self) -> "ProductQuerySet":
        return self.filter(is_listed=True, farm__is_trading=True)

    def for_cards(self) -> "ProductQuerySet":
        """What a list of product cards shows, in a fixed number of queries.

        Ordered explicitly: Django drops the default order of a grouped query.
        """
        return (
            self.select_related("farm", "category")
            .prefetch_related("tags")
            .annotate(
                rating=models.Avg("reviews__rating", filter=models.Q(reviews__is_approved=True))
            )
            .order_by("name", "pk")
        )

    def in_category(self, category: Category) -> "ProductQuerySet":
        return self.filter(category__in=category.get_descendants(include_self=True))

    def in_season(self, month: int) -> "ProductQuerySet":
        """Products whose season, which may span the new year, holds `month`."""
        within = models.Q(season_start__lte=month, season_end__gte=month)
        begun_or_not_over = models.Q(season_start__lte=month) | models.Q(season_end__gte=month)
        over_new_year = models.Q(season_start__gt=models.F("season_end"))
        return self.filter(within | over_new_year & begun_or_not_over)


class Product(models.Model):
    name = models.CharField(_("name"), max_length=120)
    slug = models.SlugField(unique=True, max_length=160)
    farm = models.ForeignKey(
        Farm, on_delete=models.CASCADE, related_name="products", verbose_name=_("farm")
    )
    category = TreeForeignKey(
        Category,
        on_delete=models.PROTECT,
        related_name="products",
        verbose_name=_("category"),
    )
    description = models.TextField(_("description"), help_text=_("Markdown."))
    price = models.DecimalField(_("price"), max_digits=7, decimal_places=2)
    unit = models.CharField(_("unit"), max_length=8, choices=Unit.choices)
    stock = models.PositiveIntegerField(_("in stock"), default=0)
    allergens = models.ManyToManyField(
        Allergen, blank=True, related_name="products", verbose_name=_("allergens")
    )
    season_start = models.PositiveSmallIntegerField(
        _("season starts"), validators=MONTH_RANGE, default=1
    )
    season_end = models.PositiveSmallIntegerField(
        _("season ends"), validators=MONTH_RANGE, default=12
    )
    is_listed = models.BooleanField(_("listed"), default=True)
    listed_on = models.DateField(_("listed on"))

    tags = TaggableManager(blank=True)
    history = HistoricalRecords()
    objects = ProductQuerySet.as_manager()

    class Meta:
        ordering = ["name", "pk"]
        verbose_name = _("product")
        verbose_name_plural = _("products")
        indexes = [models.Index(fields=["is_listed", "-listed_on"])]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("catalog:product", args=[self.slug])

    @property
    def is_year_round(self) -> bool:
        return (self.season_start, self.season_end) == (1, 12)

    @property
    def season(self) -> str:
        if self.is_year_round:
            return str(_("all year round"))
        return f"{MONTHS[self.season_start]} – {MONTHS[self.season_end]}"


class PriceChange(models.Model):
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="price_changes")
    price = models.DecimalField(_("price"), max_digits=7, decimal_places=2)
    valid_from = models.DateField(_("valid from"))

    class Meta:
        ordering = ["-valid_from"]
        verbose_name = _("price change")
        verbose_name_plural = _("price changes")
        constraints = [
            models.UniqueConstraint(fields=["product", "valid_from"], name="one_price_change_a_day")
        ]

    def __str__(self) -> str:
        return f"{self.price} from {self.valid_from}"
