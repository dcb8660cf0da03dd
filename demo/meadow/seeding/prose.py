"""Writes plausible English about produce: sentences, paragraphs, Markdown."""

from random import Random

SENTENCES = [
    "{Crop} do best after a wet {month}, and this one was wet enough.",
    "We sow {crop} by hand, because the field is too steep for a machine.",
    "The {place} end of the farm is still pasture, and will remain so.",
    "Nobody in {place} remembers a {month} as dry as the last one.",
    "What we do not sell by Friday goes into jars on Saturday.",
    "The soil is heavy, which {crop} like and the tractor does not.",
    "Ask three growers about {crop} and you will hear four opinions.",
    "A hedge planted twelve years ago now feeds more birds than we can name.",
    "Frost came on the second night of {month} and took the early flowers.",
    "There is a waiting list for {crop}, so order before Tuesday.",
    "Half of the flavour is the variety, the other half is the day it was picked.",
    "In {place} they say that {crop} should be planted when the blackthorn blooms.",
    "We keep the seed of the best plants and swap the rest with our neighbours.",
    "The van leaves at five, so that everything is in the shop by nine.",
    "Our bees did well in {month}; the borage was late but there was plenty of it.",
    "Green manure goes in as soon as the last {crop} are out.",
    "Washing shortens their life, so we leave the earth on.",
    "From the top field you can see all of {place} on a clear day.",
    "The well has never run dry, not even in the {month} of 1976.",
    "It takes two people a day to harvest what one person eats in a year.",
    "Storage is simple: cool, dark, and not next to the apples.",
    "We tried to grow {crop} under glass once, and prefer not to speak of it.",
    "The price has not changed since {month}, and we hope to keep it there.",
    "A slow oven, a little butter and some salt are all that {crop} need.",
    "The children of the village school pick the first ones every year.",
]
HEADINGS = [
    "How it started",
    "In the field",
    "What to do with {crop}",
    "A year in {place}",
    "The numbers",
    "What comes next",
    "Why it matters",
]
QUOTES = [
    "You do not farm the land you want, you farm the land you have.",
    "If the slugs will not eat it, neither should you.",
    "The best fertilizer is the farmer's footstep.",
    "A good hedge is worth two good fences.",
]
MONTH_NAMES = (
    "January February March April May June July August September October November December"
).split()


class Writer:
    """Writes about given crops and places, the same text for the same chance."""

    def __init__(self, chance: Random, crops: list[str], places: list[str]) -> None:
        self._chance = chance
        self._crops = crops
        self._places = places

    def _fill_in(self, text: str) -> str:
        crop = self._chance.choice(self._crops)
        return text.format(
            crop=crop,
            Crop=crop[0].upper() + crop[1:],
            place=self._chance.choice(self._places),
            month=self._chance.choice(MONTH_NAMES),
        )

    def sentence(self) -> str:
        return self._fill_in(self._chance.choice(SENTENCES))

    def paragraph(self, fewest: int = 3, most: int = 6) -> str:
        chosen = self._chance.sample(SENTENCES, self._chance.randint(fewest, most))
        return " ".join(self._fill_in(sentence) for sentence in chosen)

    def bullets(self) -> str:
        return "\n".join(
            f"* **{crop}**: {self.sentence()}" for crop in self._chance.sample(self._crops, 3)
        )

    def table(self) -> str:
        rows = [
            f"| {crop} | {self._chance.randint(2, 40)} | {self._chance.randint(1, 9)} |"
            for crop in self._chance.sample(self._crops, 4)
        ]
        return "\n".join(["| crop | rows | tonnes |", "| --- | ---: | ---: |", *rows])

    def article(self) -> str:
        """A Markdown text with headings, a list, a quotation and perhaps a table."""
        parts = [self.paragraph()]
        for heading in self._chance.sample(HEADINGS, self._chance.randint(2, 4)):
            parts += [f"## {self._fill_in(heading)}", self.paragraph()]
            parts.append(self._chance.choice([self.bullets, self.paragraph])())
        parts.append(f"> {self._chance.choice(QUOTES)}")
        if self._chance.random() < 0.4:
            parts += ["## In figures", self.table()]
        parts.append(self.paragraph())
        return "\n\n".join(parts)
