"""Regions, farms and the labels that farms carry."""

from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords
from taggit.managers import TaggableManager


class Region(models.Model):
    name = models.CharField(_("name"), max_length=80, unique=True)
    slug = models.SlugField(unique=True)
    summary = models.TextField(_("summary"), blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("region")
        verbose_name_plural = _("regions")

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("catalog:region", args=[self.slug])


class Certification(models.Model):
    name = models.CharField(_("name"), max_length=80, unique=True)
    slug = models.SlugField(unique=True)
    issuer = models.CharField(_("issued by"), max_length=120)
    description = models.TextField(_("description"), blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("certification")
        verbose_name_plural = _("certifications")

    def __str__(self) -> str:
        return self.name


class FarmQuerySet(models.QuerySet):
    def trading(self) -> "FarmQuerySet":
        return self.filter(is_trading=True)

    def with_product_counts(self) -> "FarmQuerySet":
        available = models.Q(products__is_listed=True)
        count = models.Count("products", filter=available, distinct=True)
        return self.annotate(product_count=count).order_by("name")


class Farm(models.Model):
    name = models.CharField(_("name"), max_length=120, unique=True)
    slug = models.SlugField(unique=True, max_length=140)
    region = models.ForeignKey(
        Region, on_delete=models.PROTECT, related_name="farms", verbose_name=_("region")
    )
    certifications = models.ManyToManyField(
        Certification,
        blank=True,
        related_name="farms",
        verbose_name=_("certifications"),
    )
    farmer = models.CharField(_("farmer"), max_length=120)
    founded = models.PositiveSmallIntegerField(_("founded"))
    hectares = models.DecimalField(_("hectares"), max_digits=7, decimal_places=1)
    story = models.TextField(_("story"), help_text=_("Markdown."), blank=True)
    email = models.EmailField(_("e-mail"), blank=True)
    website = models.URLField(_("website"), blank=True)
    latitude = models.DecimalField(max_digits=8, decimal_places=5)
    longitude = models.DecimalField(max_digits=8, decimal_places=5)
    joined_on = models.DateField(_("joined on"))
    is_trading = models.BooleanField(_("trading"), default=True)

    tags = TaggableManager(blank=True)
    history = HistoricalRecords()
    objects = FarmQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        verbose_name = _("farm")
        verbose_name_plural = _("farms")

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("catalog:farm", args=[self.slug])
