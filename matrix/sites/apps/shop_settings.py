"""Settings of a shop, as Oscar's documentation gives them."""

import os

from oscar.defaults import *  # noqa: F403

DATA = os.environ["SITE_DATA"]
SECRET_KEY = "of-this-test-alone"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
SITE_ID = 1
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = f"{DATA}/static"
MEDIA_ROOT = f"{DATA}/media"
MEDIA_URL = "/media/"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"{DATA}/shop.db",
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"timeout": 30},
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.sites",
    "django.contrib.flatpages",
    "oscar.config.Shop",
    *(
        f"oscar.apps.{name}"
        for name in (
            "analytics.apps.AnalyticsConfig", "checkout.apps.CheckoutConfig",
            "address.apps.AddressConfig", "shipping.apps.ShippingConfig",
            "catalogue.apps.CatalogueConfig", "catalogue.reviews.apps.CatalogueReviewsConfig",
            "communication.apps.CommunicationConfig", "partner.apps.PartnerConfig",
            "basket.apps.BasketConfig", "payment.apps.PaymentConfig", "offer.apps.OfferConfig",
            "order.apps.OrderConfig", "customer.apps.CustomerConfig", "search.apps.SearchConfig",
            "voucher.apps.VoucherConfig", "wishlists.apps.WishlistsConfig",
            "dashboard.apps.DashboardConfig", "dashboard.reports.apps.ReportsDashboardConfig",
            "dashboard.users.apps.UsersDashboardConfig",
            "dashboard.orders.apps.OrdersDashboardConfig",
            "dashboard.catalogue.apps.CatalogueDashboardConfig",
            "dashboard.offers.apps.OffersDashboardConfig",
            "dashboard.partners.apps.PartnersDashboardConfig",
            "dashboard.pages.apps.PagesDashboardConfig",
            "dashboard.ranges.apps.RangesDashboardConfig",
            "dashboard.reviews.apps.ReviewsDashboardConfig",
            "dashboard.vouchers.apps.VouchersDashboardConfig",
            "dashboard.communications.apps.CommunicationsDashboardConfig",
            "dashboard.shipping.apps.ShippingDashboardConfig",
        )
    ),
    "widget_tweaks",
    "haystack",
    "treebeard",
    "sorl.thumbnail",
    "django_tables2",
]  # fmt: skip
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
]
AUTHENTICATION_BACKENDS = (
    "oscar.apps.customer.auth_backends.EmailBackend",
    "django.contrib.auth.backends.ModelBackend",
)
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "oscar.apps.search.context_processors.search_form",
                "oscar.apps.checkout.context_processors.checkout",
                "oscar.apps.communication.notifications.context_processors.notifications",
                "oscar.core.context_processors.metadata",
            ]
        },
    }
]
