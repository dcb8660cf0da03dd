"""The templates of pages, filled in: one way for all of them.

Values are escaped, and a name that a template uses and does not get is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TEMPLATES = Path(__file__).with_name("templates")


def render_page(template: str, **values: Any) -> str:
    """A page as text. Precondition: jinja2 is installed."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
