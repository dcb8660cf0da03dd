"""The templates of pages, filled in: one way for all of them.

Values are escaped and made printable, wherever they come from; what a template declares safe
is markup of ours. A name that a template uses and does not get is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pasture.untrusted_text import printable

_TEMPLATES = Path(__file__).with_name("templates")


def render_page(template: str, **values: Any) -> str:
    """A page as text. Precondition: jinja2 is installed."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _printable(value: Any) -> Any:
    """A value as a page shows it; markup is left as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
