"""Admin of the catalogue, one topic a file; importing it registers the models."""

from . import farms, products, reviews, taxonomy

__all__ = ["farms", "products", "reviews", "taxonomy"]
