"""Contributors, their articles and recipes, comments on them, and events."""

from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords
from taggit.managers import TaggableManager

from meadow.catalog.models import Farm, Product


class Contributor(models.Model):
    name = models.CharField(_("name"), max_length=120, unique=True)
    slug = models.SlugField(unique=True, max_length=140)
    biography = models.TextField(_("biography"), blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = _("contributor")
        verbose_name_plural = _("contributors")

    def __str__(self) -> str:
        return self.name


class Article(models.Model):
    class Status(models.TextChoices):
        DRAFT = "draft", _("draft")
        PUBLISHED = "published", _("published")

    title = models.CharField(_("title"), max_length=160)
    slug = models.SlugField(unique=True, max_length=180)
    contributor = models.ForeignKey(
        Contributor,
        on_delete=models.PROTECT,
        related_name="articles",
        verbose_name=_("contributor"),
    )
    summary = models.TextField(_("summary"))
    body = models.TextField(_("body"), help_text=_("Markdown."))
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.DRAFT
    )
    published_at = models.DateTimeField(_("published at"), default=timezone.now)
    products = models.ManyToManyField(
        Product, blank=True, related_name="articles", verbose_name=_("products")
    )

    tags = TaggableManager(blank=True)
    history = HistoricalRecords()

    class Meta:
        ordering = ["-published_at", "pk"]
        verbose_name = _("article")
        verbose_name_plural = _("articles")

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("journal:article", args=[self.slug])


class Comment(models.Model):
    article = models.ForeignKey(Article, on_delete=models.CASCADE, related_name="comments")
    name = models.CharField(_("name"), max_length=80)
    email = models.EmailField(_("e-mail"))
    text = models.TextField(_("text"))
    written_at = models.DateTimeField(_("written at"), default=timezone.now)
    is_approved = models.BooleanField(_("approved"), default=False)

    class Meta:
        ordering = ["written_at", "pk"]
        verbose_name = _("comment")
        verbose_name_plural = _("comments")

    def __str__(self) -> str:
        return f"{self.name}: {self.text[:40]}"


class Recipe(models.Model):
    class Difficulty(models.IntegerChoices):
        EASY = 1, _("easy")
        MODERATE = 2, _("moderate")
        DEMANDING = 3, _("demanding")

    title = models.CharField(_("title"), max_length=160)
    slug = models.SlugField(unique=True, max_length=180)
    contributor = models.ForeignKey(
        Contributor,
        on_delete=models.PROTECT,
        related_name="recipes",
        verbose_name=_("contributor"),
    )
    introduction = models.TextField(_("introduction"), help_text=_("Markdown."))
    servings = models.PositiveSmallIntegerField(_("servings"), default=4)
    minutes = models.PositiveSmallIntegerField(_("minutes"))
    difficulty = models.PositiveSmallIntegerField(
        _("difficulty"), choices=Difficulty.choices, default=Difficulty.EASY
    )
    published_at = models.DateTimeField(_("published at"), default=timezone.now)

    tags = TaggableManager(blank=True)

    class Meta:
        ordering = ["-published_at", "pk"]
        verbose_name = _("recipe")
        verbose_name_plural = _("recipes")

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("journal:recipe", args=[self.slug])


class Ingredient(models.Model):
    recipe = models.ForeignKey(Recipe, on_delete=models.CASCADE, related_name="ingredients")
    position = models.PositiveSmallIntegerField(_("position"))
    name = models.CharField(_("name"), max_length=80)
    amount = models.CharField(_("amount"), max_length=40)
    product = models.ForeignKey(
        Product,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="ingredients",
        verbose_name=_("product"),
    )

    class Meta:
        ordering = ["position"]
        verbose_name = _("ingredient")
        verbose_name_plural = _("ingredients")

    def __str__(self) -> str:
        return f"{self.amount} {self.name}"


class Step(models.Model):
    recipe = models.ForeignKey(Recipe, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveSmallIntegerField(_("position"))
    text = models.TextField(_("text"))

    class Meta:
        ordering = ["position"]
        verbose_name = _("step")
        verbose_name_plural = _("steps")

    def __str__(self) -> str:
        return f"{self.position}. {self.text[:40]}"


class Event(models.Model):
    title = models.CharField(_("title"), max_length=160)
    slug = models.SlugField(unique=True, max_length=180)
    farm = models.ForeignKey(
        Farm, on_delete=models.CASCADE, related_name="events", verbose_name=_("farm")
    )
    starts_at = models.DateTimeField(_("starts at"))
    places = models.PositiveSmallIntegerField(_("places"))
    description = models.TextField(_("description"), help_text=_("Markdown."))

    class Meta:
        ordering = ["starts_at", "pk"]
        verbose_name = _("event")
        verbose_name_plural = _("events")

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("journal:event", args=[self.slug])
