"""Settings of the demonstration site.

Everything is as on a production site but for two things: the secret key is
published, so that the session in the load has the same cookie everywhere, and
only loopback names are answered, because of that key.

Environment: MEADOW_DB is the path of the SQLite file (`var/meadow.sqlite3`), MEADOW_BROKER the
address of Celery's broker (Redis on its usual port).
"""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent
PACKAGE_DIR = BASE_DIR / "meadow"

SECRET_KEY = "published-with-pasture-never-use-this-key-for-a-site-of-your-own"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
SITE_ID = 1

INSTALLED_APPS = [
    "meadow.pages",
    "meadow.catalog",
    "meadow.journal",
    "meadow.orders",
    "meadow.api",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.sites",
    "django.contrib.sitemaps",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "crispy_forms",
    "crispy_bootstrap5",
    "django_extensions",
    "django_filters",
    "drf_spectacular",
    "import_export",
    "mptt",
    "rest_framework",
    "simple_history",
    "taggit",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]

ROOT_URLCONF = "meadow.urls"
WSGI_APPLICATION = "meadow.wsgi.application"

TEMPLATES = [
    {
        # Without DEBUG, Django wraps these loaders in the cached one.
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PACKAGE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "meadow.pages.context_processors.navigation",
                "meadow.pages.context_processors.basket",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("MEADOW_DB") or BASE_DIR / "var" / "meadow.sqlite3",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "timeout": 20,
            # The write-ahead log is a property of the file, set by `fill`: workers that set it
            # all at once when they start find the database locked.
            "init_command": "PRAGMA synchronous=NORMAL;",
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "TIMEOUT": 600,
        "OPTIONS": {"MAX_ENTRIES": 2000},
    }
}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "orders:history"
ACCOUNT_LOGIN_METHODS = {"email", "username"}
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SIGNUP_FIELDS = ["email*", "username*", "password1*", "password2*"]

LANGUAGE_CODE = "en-gb"
LANGUAGES = [("en-gb", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [PACKAGE_DIR / "locale"]
TIME_ZONE = "Europe/London"
USE_I18N = True
USE_TZ = True

# The development server's way of finding files, so that no build step is needed.
STATIC_URL = "static/"
STATICFILES_DIRS = [PACKAGE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

_NO_MAIL = "django.core.mail.backends.dummy.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": _NO_MAIL}}
else:
    EMAIL_BACKEND = _NO_MAIL
DEFAULT_FROM_EMAIL = "market@meadow.example"

CELERY_BROKER_URL = os.environ.get("MEADOW_BROKER") or "redis://127.0.0.1:6379/0"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE = {"stock": {"task": "meadow.orders.tasks.count_stock", "schedule": 10.0}}

CRISPY_ALLOWED_TEMPLATE_PACKS = "bootstrap5"
CRISPY_TEMPLATE_PACK = "bootstrap5"
TAGGIT_CASE_INSENSITIVE = True
IMPORT_EXPORT_USE_TRANSACTIONS = True

REST_FRAMEWORK = {
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "rest_framework.filters.SearchFilter",
        "rest_framework.filters.OrderingFilter",
    ],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.DjangoModelPermissionsOrAnonReadOnly"
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "PAGE_SIZE": 25,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Meadow market API",
    "DESCRIPTION": "Farms, their produce, and what is written about them.",
    "VERSION": "1.0.0",
    "SERVE_INCLUDE_SCHEMA": False,
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"django.request": {"level": "ERROR"}},
}
