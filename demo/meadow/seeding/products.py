"""Categories, allergens, products, their prices and reviews."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from random import Random

from django.contrib.auth.models import User
from django.utils.text import slugify
from simple_history.utils import bulk_create_with_history

from meadow.catalog.models import (
    Allergen,
    Category,
    Farm,
    PriceChange,
    Product,
    Review,
)

from .dates import OPENING, day_since_opening, moment_on
from .prose import Writer
from .tags import attach_tags
from .vocabulary import ALLERGENS, CATEGORY_TREE, PRODUCT_TAGS, Crop

PRODUCTS_A_FARM = 11
REVIEW_COUNT = 1900
REVIEW_TITLES = [
    "As my grandmother grew them",
    "Better than last year",
    "Fine, but small",
    "Good value",
    "Never again from the supermarket",
    "Not my taste",
    "The children asked for more",
    "Will order again",
]


def create_categories(writer: Writer) -> dict[str, Category]:
    """Makes the tree of categories; returns them by slug."""
    categories = {}

    def add(name: str, parent: Category | None = None) -> Category:
        category = Category.objects.create(
            name=name, slug=slugify(name), description=writer.sentence(), parent=parent
        )
        categories[category.slug] = category
        return category

    for root_name, children in CATEGORY_TREE.items():
        root = add(root_name)
        for child_name, grandchildren in children.items():
            child = add(child_name, root)
            for grandchild_name in grandchildren:
                add(grandchild_name, child)
    return categories


def create_allergens() -> dict[str, Allergen]:
    allergens = Allergen.objects.bulk_create(
        Allergen(code=code, name=name) for code, name in ALLERGENS.items()
    )
    return {allergen.code: allergen for allergen in allergens}


def create_products(
    chance: Random,
    writer: Writer,
    farms: Sequence[Farm],
    crops: Sequence[Crop],
    categories: dict[str, Category],
) -> list[Product]:
    sold = [
        (farm, crop, chance.choice(crop.varieties))
        for farm in farms
        for crop in chance.sample(crops, PRODUCTS_A_FARM)
    ]
    products = bulk_create_with_history(
        [
            _product(chance, writer, farm, crop, variety, categories[crop.category])
            for farm, crop, variety in sold
        ],
        Product,
        default_date=moment_on(OPENING, chance),
    )
    _attach_allergens(products, [crop for _, crop, _ in sold])
    attach_tags(chance, products, PRODUCT_TAGS, most=3)
    return products


def _product(
    chance: Random,
    writer: Writer,
    farm: Farm,
    crop: Crop,
    variety: str,
    category: Category,
) -> Product:
    name = f"{variety} {crop.name}"
    return Product(
        name=name,
        slug=slugify(f"{name} {farm.slug}"),
        farm=farm,
        category=category,
        description="\n\n".join([writer.paragraph(2, 4), writer.paragraph(2, 4)]),
        price=(crop.price * chance.randint(85, 125) / 100).quantize(Decimal("0.01")),
        unit=crop.unit,
        stock=chance.choice([0, 3, 8, 20, 45, 120]),
        season_start=crop.season_start,
        season_end=crop.season_end,
        is_listed=chance.random() < 0.95,
        listed_on=day_since_opening(chance),
    )


def _attach_allergens(products: Sequence[Product], crops: Sequence[Crop]) -> None:
    allergens = create_allergens()
    through = Product.allergens.through
    through.objects.bulk_create(
        through(product=product, allergen=allergens[crop.allergen])
        for product, crop in zip(products, crops, strict=True)
        if crop.allergen
    )


def create_price_changes(chance: Random, products: Sequence[Product]) -> None:
    PriceChange.objects.bulk_create(
        PriceChange(
            product=product,
            price=(product.price * (100 - 4 * years_ago) / 100).quantize(Decimal("0.01")),
            valid_from=product.listed_on - timedelta(days=365 * years_ago),
        )
        for product in products
        for years_ago in range(chance.randint(1, 3))
    )


def create_reviews(
    chance: Random,
    writer: Writer,
    products: Sequence[Product],
    authors: Sequence[User],
) -> None:
    Review.objects.bulk_create(
        Review(
            product=chance.choice(products),
            author=chance.choice(authors),
            rating=chance.choice([2, 3, 4, 4, 5, 5, 5]),
            title=chance.choice(REVIEW_TITLES),
            text=writer.paragraph(1, 3),
            written_at=moment_on(day_since_opening(chance), chance),
            is_approved=chance.random() < 0.9,
        )
        for _ in range(REVIEW_COUNT)
    )
