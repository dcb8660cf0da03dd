"""The site's URLs. Pages for people carry the language, all others do not."""

from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.contrib.sitemaps.views import sitemap
from django.urls import include, path
from django.views.generic import TemplateView

from meadow.catalog.sitemaps import CategorySitemap, FarmSitemap, ProductSitemap
from meadow.journal.sitemaps import ArticleSitemap, RecipeSitemap

SITEMAPS = {
    "products": ProductSitemap,
    "farms": FarmSitemap,
    "categories": CategorySitemap,
    "articles": ArticleSitemap,
    "recipes": RecipeSitemap,
}

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.urls")),
    path("api/", include("meadow.api.urls")),
    path("sitemap.xml", sitemap, {"sitemaps": SITEMAPS}, name="sitemap"),
    path(
        "robots.txt",
        TemplateView.as_view(template_name="robots.txt", content_type="text/plain"),
    ),
    *i18n_patterns(
        path("", include("meadow.pages.urls")),
        path("", include("meadow.catalog.urls")),
        path("", include("meadow.journal.urls")),
        path("", include("meadow.orders.urls")),
        prefix_default_language=False,
    ),
]
