from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PagesConfig(AppConfig):
    name = "meadow.pages"
    verbose_name = _("Home, search, contact and navigation")
