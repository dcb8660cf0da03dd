"""The templates of pages, filled in: one way for all of them.

Values are escaped and made printable, wherever they come from; what a template declares safe
is markup of ours. A name that a template uses and does not get is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasture.trust.untrusted_text import printable

if TYPE_CHECKING:
    import jinja2

_STYLE = Path(__file__).parent  # page.css, which every page includes
_MOST_CHARACTERS = 20_000  # of one value


def render_page(template: Path, **values: Any) -> str:
    """A page as text, from a template file. Precondition: jinja2 is installed."""
    import jinja2

    loader = jinja2.FileSystemLoader([template.parent, _STYLE])
    return environment(loader).get_template(template.name).render(**values)


def environment(loader: jinja2.BaseLoader) -> jinja2.Environment:
    """How templates are filled in."""
    import jinja2

    return jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """A value as a page shows it; markup is left as it is."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, _MOST_CHARACTERS)
