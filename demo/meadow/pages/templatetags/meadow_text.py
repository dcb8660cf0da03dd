"""Template filters for text: Markdown, prices, ratings."""

import hashlib
from decimal import Decimal
from functools import cache as remember

import markdown as markdown_library
import nh3
from django import template
from django.core.cache import cache
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

MARKDOWN_EXTENSIONS = ["extra", "sane_lists", "smarty", "toc"]
ALLOWED_TAGS = nh3.ALLOWED_TAGS | {"section"}
ALLOWED_ATTRIBUTES = {**nh3.ALLOWED_ATTRIBUTES, "h2": {"id"}, "h3": {"id"}}
BEST_RATING = 5


@remember
def _converter() -> markdown_library.Markdown:
    return markdown_library.Markdown(extensions=MARKDOWN_EXTENSIONS)


def _render(source: str) -> str:
    html = _converter().reset().convert(source)
    return nh3.clean(html, tags=ALLOWED_TAGS, attributes=ALLOWED_ATTRIBUTES)


@register.filter
def markdown(source: str) -> SafeString:
    """Converts Markdown to HTML and strips what an author must not embed."""
    digest = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
    html = cache.get_or_set(f"markdown:{digest}", lambda: _render(source))
    return mark_safe(html)  # nh3 made it safe


@register.filter
def price(amount: Decimal) -> str:
    return f"£{number_format(amount, decimal_pos=2)}"


@register.filter
def stars(rating: float | None) -> SafeString | str:
    """A rating as stars, with the number for screen readers."""
    if rating is None:
        return ""
    full = round(rating)
    return format_html(
        '<span class="stars" title="{}"><span aria-hidden="true">{}</span></span>',
        number_format(rating, decimal_pos=1),
        "★" * full + "☆" * (BEST_RATING - full),
    )
