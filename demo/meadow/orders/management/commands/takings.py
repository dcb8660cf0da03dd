"""Prints the turnover of each collection point, as a nightly report does."""

from django.core.management.base import BaseCommand
from django.db.models import DecimalField, F, Sum

from meadow.orders.models import CollectionPoint


class Command(BaseCommand):
    help = __doc__

    def handle(self, **_: object) -> None:
        line_total = F("orders__lines__quantity") * F("orders__lines__unit_price")
        total = Sum(line_total, output_field=DecimalField(decimal_places=2))
        for point in CollectionPoint.objects.annotate(total=total):
            self.stdout.write(f"{point}: {point.total or 0:.2f}")
