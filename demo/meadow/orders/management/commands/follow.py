"""Prints each new order until it is stopped, as a consumer of a queue does."""

import time
from argparse import ArgumentParser

from django.core.management.base import BaseCommand
from django.db import close_old_connections

from meadow.orders.models import Order


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")

    def handle(self, *, every: float, **_: object) -> None:
        seen = Order.objects.order_by("pk").values_list("pk", flat=True).last() or 0
        while True:
            for order in Order.objects.filter(pk__gt=seen).with_totals().order_by("pk"):
                self.stdout.write(f"{order} {order.customer} {order.total}")
                self.stdout.flush()
                seen = order.pk
            close_old_connections()
            time.sleep(every)
