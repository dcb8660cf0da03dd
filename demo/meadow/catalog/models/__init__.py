"""Models of the catalogue, one topic a file."""

from .farms import Certification, Farm, Region
from .products import Allergen, PriceChange, Product, Unit
from .reviews import Review
from .taxonomy import Category

__all__ = [
    "Allergen",
    "Category",
    "Certification",
    "Farm",
    "PriceChange",
    "Product",
    "Region",
    "Review",
    "Unit",
]
