"""Contributors, articles with comments, and recipes."""

from collections.abc import Sequence
from random import Random

from django.utils.text import slugify
from simple_history.utils import bulk_create_with_history

from meadow.catalog.models import Product
from meadow.journal.models import (
    Article,
    Comment,
    Contributor,
    Ingredient,
    Recipe,
    Step,
)

from .dates import OPENING, day_since_opening, moment_on
from .prose import Writer
from .tags import attach_tags
from .vocabulary import FIRST_NAMES, JOURNAL_TAGS, LAST_NAMES

CONTRIBUTOR_COUNT = 9
ARTICLE_COUNT = 110
COMMENT_COUNT = 420
RECIPE_COUNT = 84

ARTICLE_TITLES = [
    "In praise of {}",
    "The trouble with {}",
    "{} after the flood",
    "A short history of {}",
    "Who still grows {}?",
    "{} without a plough",
]
DISHES = ["soup", "pie", "gratin", "salad", "risotto", "tart", "stew", "pickle"]
AMOUNTS = ["200 g", "350 g", "2", "a handful of", "1 kg", "3 spoonfuls of", "half a"]
STEPS = [
    "Wash and trim everything, and cut it into pieces of the same size.",
    "Melt the butter over a low heat and let the onions soften for ten minutes.",
    "Add the rest, season well, and cover with water or stock.",
    "Simmer until tender, then leave it to stand off the heat.",
    "Heat the oven to 190 degrees and grease a shallow dish.",
    "Bake on the middle shelf until the top is brown and bubbling.",
    "Taste, correct with vinegar, and scatter the herbs over it.",
    "Serve with bread. It is better on the second day.",
]


def create_contributors(chance: Random, writer: Writer) -> list[Contributor]:
    names = [
        f"{first} {last}"
        for first, last in zip(
            chance.sample(FIRST_NAMES, CONTRIBUTOR_COUNT),
            chance.sample(LAST_NAMES, CONTRIBUTOR_COUNT),
            strict=True,
        )
    ]
    return Contributor.objects.bulk_create(
        Contributor(name=name, slug=slugify(name), biography=writer.paragraph(2, 3))
        for name in names
    )


def create_articles(
    chance: Random,
    writer: Writer,
    contributors: Sequence[Contributor],
    products: Sequence[Product],
) -> list[Article]:
    subjects = [chance.choice(products) for _ in range(ARTICLE_COUNT)]
    articles = bulk_create_with_history(
        [
            _article(chance, writer, number, subject, chance.choice(contributors))
            for number, subject in enumerate(subjects, start=1)
        ],
        Article,
        default_date=moment_on(OPENING, chance),
    )
    through = Article.products.through
    through.objects.bulk_create(
        through(article=article, product=product)
        for article in articles
        for product in chance.sample(products, chance.randint(0, 4))
    )
    attach_tags(chance, articles, JOURNAL_TAGS, most=3)
    return articles


def _article(
    chance: Random,
    writer: Writer,
    number: int,
    subject: Product,
    contributor: Contributor,
) -> Article:
    title = chance.choice(ARTICLE_TITLES).format(subject.name)
    is_published = number == 1 or chance.random() < 0.93
    return Article(
        title=title,
        slug=f"{slugify(title)}-{number}",
        contributor=contributor,
        summary=writer.paragraph(1, 2),
        body=writer.article(),
        status=Article.Status.PUBLISHED if is_published else Article.Status.DRAFT,
        published_at=moment_on(day_since_opening(chance), chance),
    )


def create_comments(chance: Random, writer: Writer, articles: Sequence[Article]) -> None:
    authors = [chance.choice(FIRST_NAMES) for _ in range(COMMENT_COUNT)]
    Comment.objects.bulk_create(
        Comment(
            article=chance.choice(articles),
            name=name,
            email=f"{name.lower()}@post.example",
            text=writer.paragraph(1, 3),
            written_at=moment_on(day_since_opening(chance), chance),
            is_approved=chance.random() < 0.85,
        )
        for name in authors
    )


def create_recipes(
    chance: Random,
    writer: Writer,
    contributors: Sequence[Contributor],
    products: Sequence[Product],
) -> list[Recipe]:
    chosen = [chance.sample(products, chance.randint(4, 8)) for _ in range(RECIPE_COUNT)]
    recipes = Recipe.objects.bulk_create(
        _recipe(chance, writer, number, uses[0], chance.choice(contributors))
        for number, uses in enumerate(chosen, start=1)
    )
    Ingredient.objects.bulk_create(
        Ingredient(
            recipe=recipe,
            position=position,
            name=product.name,
            amount=chance.choice(AMOUNTS),
            product=product,
        )
        for recipe, uses in zip(recipes, chosen, strict=True)
        for position, product in enumerate(uses, start=1)
    )
    Step.objects.bulk_create(
        Step(recipe=recipe, position=position, text=text)
        for recipe in recipes
        for position, text in enumerate(
            sorted(chance.sample(STEPS, chance.randint(4, 7)), key=STEPS.index), start=1
        )
    )
    attach_tags(chance, recipes, JOURNAL_TAGS, most=2)
    return recipes


def _recipe(
    chance: Random,
    writer: Writer,
    number: int,
    main_product: Product,
    contributor: Contributor,
) -> Recipe:
    title = f"{main_product.name} {chance.choice(DISHES)}"
    return Recipe(
        title=title,
        slug=f"{slugify(title)}-{number}",
        contributor=contributor,
        introduction=writer.paragraph(2, 4),
        servings=chance.choice([2, 4, 6]),
        minutes=chance.choice([15, 25, 40, 60, 90]),
        difficulty=chance.choice(Recipe.Difficulty.values),
        published_at=moment_on(day_since_opening(chance), chance),
    )
