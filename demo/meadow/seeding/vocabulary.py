"""The words that the seeded rows are made of, and the table of crops."""

import csv
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from django.utils.text import slugify

CROPS_FILE = Path(__file__).with_name("crops.csv")

# Name of a root category: names of its children, each with their own.
CATEGORY_TREE: dict[str, dict[str, list[str]]] = {
    "Vegetables": {
        "Roots": [],
        "Alliums": [],
        "Leaves": [],
        "Brassicas": [],
        "Squashes": [],
        "Pulses": [],
        "Fruiting vegetables": [],
    },
    "Fruit": {"Orchard fruit": [], "Berries": [], "Nuts": []},
    "Dairy": {
        "Cheese": ["Hard cheese", "Soft cheese", "Blue cheese"],
        "Milk and cream": [],
        "Eggs": [],
    },
    "Bakery": {"Bread": [], "Cakes": []},
    "Meat": {"Beef": [], "Lamb": [], "Pork": [], "Poultry": []},
    "Larder": {
        "Preserves": [],
        "Honey": [],
        "Flour and grain": [],
        "Oils and vinegars": [],
    },
    "Drinks": {"Juice": [], "Cider": []},
    "Garden": {"Herbs": [], "Cut flowers": []},
}

REGIONS = {
    "Upper Wharfe": "Limestone pasture, short summers, and the best mutton for miles.",
    "Severn Vale": "Orchards on red soil, flooded in winter and generous in autumn.",
    "The Fens": "Black peat below the sea, where every root grows straight.",
    "South Downs": "Chalk, sheep and vineyards, and a wind that dries everything.",
    "Tamar Valley": "Market gardens on slopes so steep that they dig uphill.",
    "Lune Valley": "Wet meadows, dairy herds, and cheese since the monks.",
    "High Weald": "Small fields between woods, hops and cobnuts.",
    "Norfolk Coast": "Light soil and sea air for barley, asparagus and samphire.",
}

CERTIFICATIONS = {
    "Organic": ("Soil Association", "No synthetic fertilizer, no synthetic pesticide."),
    "Biodynamic": ("Demeter", "The farm as one organism, by the Demeter standard."),
    "Pasture for Life": ("PFLA", "Animals fed on grass and on nothing else."),
    "Free Range": ("RSPCA Assured", "Room, daylight and something to scratch."),
    "Heritage Breed": ("RBST", "Breeds on the watch list, kept and eaten."),
    "Living Wage": ("Living Wage Foundation", "Everyone on the farm can live on it."),
}

ALLERGENS = {
    "CEL": "Celery",
    "EGG": "Eggs",
    "GLU": "Gluten",
    "MLK": "Milk",
    "MUS": "Mustard",
    "NUT": "Nuts",
    "SUL": "Sulphites",
}

FIRST_NAMES = (
    "Ada Alan Amara Bridget Calum Carys Daniel Dilys Edith Ewan Farah Fergus Grace "
    "Hamish Hannah Idris Imogen Ivy Jamal Joan Kit Leila Lewis Mabel Martha Megan "
    "Morag Nadia Ned Niamh Olive Oscar Owen Priya Ravi Rhys Rosa Sam Tess Wilfred"
).split()
LAST_NAMES = (
    "Ackroyd Ahmed Barrow Bell Blackwood Brook Carter Clegg Cooper Davies Dyer Evans "
    "Fairfax Fletcher Garside Green Hale Hargreaves Holt Ingham Jenkins Kaur Lamb "
    "Llewellyn Marsh Mason Nuttall Okafor Patel Penrose Pryce Reaper Rowe Sharma "
    "Shepherd Sutton Thatcher Underhill Weaver Yates"
).split()

FARM_PLACES = (
    "Alder Barley Bramble Clover Ash Beech Crow Drover Elm "
    "Fallow Fern Foxglove Gorse Hawthorn Hazel Heron Holly Kestrel Lark Lapwing "
    "Mill Moss Nettle Oak Otter Owl Plover Rook Rowan Sorrel Sparrow Swift Thistle "
    "Thrush Wagtail Willow Withy Yew"
).split()
FARM_KINDS = ["Farm", "Hill Farm", "Orchard", "Dairy", "Croft", "Market Garden"]

FARM_TAGS = ["family run", "no dig", "visitors welcome", "on horseback", "solar powered"]
PRODUCT_TAGS = [
    "bestseller",
    "for children",
    "for freezing",
    "heritage variety",
    "hand picked",
    "limited",
    "new",
    "unwashed",
]
JOURNAL_TAGS = [
    "bees",
    "cooking",
    "hedgerows",
    "interview",
    "market news",
    "seasons",
    "soil",
    "wildlife",
]


@dataclass(frozen=True, slots=True)
class Crop:
    """A kind of produce, of which each farm sells some varieties."""

    category: str
    name: str
    unit: str
    price: Decimal
    season_start: int
    season_end: int
    allergen: str
    varieties: tuple[str, ...]

    @property
    def is_grown(self) -> bool:
        """Whether it comes from a field or a tree, so that the prose fits it."""
        groups = (*CATEGORY_TREE["Vegetables"], *CATEGORY_TREE["Fruit"])
        return self.category in map(slugify, groups)


def read_crops() -> list[Crop]:
    with CROPS_FILE.open(encoding="utf-8", newline="") as file:
        return [
            Crop(
                category=row["category"],
                name=row["name"],
                unit=row["unit"],
                price=Decimal(row["price"]),
                season_start=int(row["season_start"]),
                season_end=int(row["season_end"]),
                allergen=row["allergen"],
                varieties=tuple(row["varieties"].split(";")),
            )
            for row in csv.DictReader(file)
        ]
