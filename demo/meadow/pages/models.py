"""Messages that visitors send through the contact form."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Enquiry(models.Model):
    class Topic(models.TextChoices):
        ORDER = "order", _("an order")
        PRODUCT = "product", _("a product")
        FARM = "farm", _("selling on Meadow")
        OTHER = "other", _("something else")

    topic = models.CharField(_("topic"), max_length=10, choices=Topic.choices)
    name = models.CharField(_("name"), max_length=120)
    email = models.EmailField(_("e-mail"))
    message = models.TextField(_("message"))
    sent_at = models.DateTimeField(_("sent at"), default=timezone.now)
    is_answered = models.BooleanField(_("answered"), default=False)

    class Meta:
        ordering = ["-sent_at", "pk"]
        verbose_name = _("enquiry")
        verbose_name_plural = _("enquiries")

    def __str__(self) -> str:
        return f"{self.name}: {self.get_topic_display()}"
