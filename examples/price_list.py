"""What the children of examples/forkserver.py share: a price list of 100,000 articles."""

from decimal import Decimal

ARTICLES = {
    f"article {i}": {"price": Decimal(i) / 100, "stock": i * 3, "tags": (f"shelf {i % 500}", i / 3)}
    for i in range(100_000)
}


def value_of_stock():
    """Read every article: the sum of price times stock."""
    total = Decimal(0)
    for article in ARTICLES.values():
        shelf, weight = article["tags"]
        if shelf and weight >= 0:
            total += article["price"] * article["stock"]
    return total
