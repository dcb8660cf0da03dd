"""Template tags for the links between the pages of a list."""

from collections.abc import Iterator
from typing import Any

from django import template
from django.core.paginator import Page

register = template.Library()


@register.simple_tag
def page_numbers(page: Page) -> Iterator[int | str]:
    """The numbers around the current page, with ellipses for those left out."""
    return page.paginator.get_elided_page_range(page.number, on_each_side=2, on_ends=1)


@register.simple_tag(takes_context=True)
def query_with(context: dict[str, Any], **changes: object) -> str:
    """The current query string with some parameters changed."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        query[name] = str(value)
    return f"?{query.urlencode()}"
