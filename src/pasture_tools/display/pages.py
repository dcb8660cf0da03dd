"""HTML pages from templates, and the check that they can be made. A page loads no files and runs no
scripts. jinja2 is imported when a page is made, since it comes with an extra.

All values are escaped and made printable; a template declares only pasture's markup safe. A name
that a template uses and does not get is an error.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasture.errors import MissingExtra
from pasture.trust.untrusted_text import printable

if TYPE_CHECKING:
    import jinja2

_STYLE = Path(__file__).parent  # page.css and charts.html.j2, which pages include
_MAX_CHARACTERS = 20_000  # the longest value that a page shows


def require_packages(what: str, *packages: str, extra: str) -> None:
    """Raise MissingExtra if packages are missing; `extra` brings them."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"{what} needs {' and '.join(missing)}: not installed",
            hint=f"pip install 'pasture[{extra}]'",
        )


def render_page(template: Path, **values: Any) -> str:
    """A page as text, from a template file and its values."""
    import jinja2

    loader = jinja2.FileSystemLoader([template.parent, _STYLE])
    return environment(loader).get_template(template.name).render(values)


def environment(loader: jinja2.BaseLoader) -> jinja2.Environment:
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
    """A value as a page shows it; markup is unchanged."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, _MAX_CHARACTERS)
