"""Patterns of the lazy imports that are made before the fork."""

import pytest

from pasture.errors import UsageError
from pasture.warmup.lazy_imports import DEFAULT_PATTERNS, parse_patterns

pytestmark = pytest.mark.interpreter


@pytest.mark.parametrize(
    ("patterns", "target", "wanted"),
    [
        (DEFAULT_PATTERNS, "decimal.Decimal", True),
        (DEFAULT_PATTERNS, "pasture.sealing.seal", True),
        (DEFAULT_PATTERNS, "numpy", False),
        ("stdlib,!xml", "xml.dom.minidom", False),
        ("stdlib,!xml", "xmlrpc", True),
        ("mysite", "mysite", True),
        ("mysite", "mysite.views.index", True),
        ("mysite", "mysite2.views", False),
        ("mysite.*", "mysite", False),
        ("*, !torch", "torch.nn", False),
        ("*, !torch", "anything", True),
        ("", "decimal", False),
    ],
)
def test_a_pattern_names_modules_and_what_is_in_them(
    patterns: str, target: str, wanted: bool
) -> None:
    assert parse_patterns(patterns).match(target) is wanted


@pytest.mark.parametrize("text", ["a b", "json;xml", "!", "mysite,/etc/passwd"])
def test_what_can_be_no_dotted_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a module pattern"):
        parse_patterns(text)
