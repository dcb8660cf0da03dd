"""Attaches tags to many objects with few queries."""

from collections.abc import Sequence
from random import Random

from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.utils.text import slugify
from taggit.models import Tag, TaggedItem


def attach_tags(chance: Random, objects: Sequence[Model], names: Sequence[str], most: int) -> None:
    """Gives each object from none to `most` of the named tags."""
    tags = [
        Tag.objects.get_or_create(name=name, defaults={"slug": slugify(name)})[0] for name in names
    ]
    content_type = ContentType.objects.get_for_model(type(objects[0]))
    TaggedItem.objects.bulk_create(
        TaggedItem(tag=tag, content_type=content_type, object_id=each.pk)
        for each in objects
        for tag in chance.sample(tags, chance.randint(0, most))
    )
