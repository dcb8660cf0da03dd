"""What visitors can change: the basket and orders."""

from django.contrib.auth.models import User
from django.test import TestCase
from django.urls import reverse

from meadow.catalog.models import Category, Farm, Product, Region
from meadow.seeding.dates import OPENING

from .models import CollectionPoint, Order


class CheckoutTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        region = Region.objects.create(name="The Fens", slug="the-fens")
        farm = Farm.objects.create(
            name="Alder Farm",
            slug="alder-farm",
            region=region,
            farmer="Ada Marsh",
            founded=1900,
            hectares=20,
            latitude=52,
            longitude=0,
            joined_on=OPENING,
        )
        cls.product = Product.objects.create(
            name="Ruby swede",
            slug="ruby-swede",
            farm=farm,
            category=Category.objects.create(name="Roots", slug="roots"),
            description="Round.",
            price="1.70",
            unit="piece",
            stock=5,
            listed_on=OPENING,
        )
        cls.point = CollectionPoint.objects.create(
            name="Village hall", slug="village-hall", region=region, address="1 Bell Lane"
        )
        cls.user = User.objects.create_user("ada")

    def setUp(self) -> None:
        self.client.force_login(self.user)

    def order(self, quantity: int):
        """Puts the product into the basket and checks out."""
        self.client.post(reverse("orders:add", args=["ruby-swede"]), {"quantity": quantity})
        return self.client.post(
            reverse("orders:checkout"), {"collection_point": self.point.pk}, follow=True
        )

    def test_an_order_takes_the_basket_from_the_stock(self) -> None:
        page = self.order(3)
        self.product.refresh_from_db()
        self.assertEqual(self.product.stock, 2)
        self.assertContains(page, "£5.10")
        self.assertNotIn("basket", self.client.session)

    def test_orders_of_a_year_are_numbered_in_sequence(self) -> None:
        self.order(1)
        self.order(1)
        numbers = Order.objects.order_by("pk").values_list("number", flat=True)
        self.assertEqual([number[5:] for number in numbers], ["-00001", "-00002"])

    def test_what_is_sold_out_stays_in_the_basket_and_is_not_ordered(self) -> None:
        page = self.order(6)
        self.assertRedirects(page, reverse("orders:basket"))
        self.assertContains(page, "Ruby swede is sold out.")
        self.assertEqual(self.client.session["basket"], {str(self.product.pk): 6})
        self.assertFalse(Order.objects.exists())

    def test_nobody_sees_the_order_of_another(self) -> None:
        self.order(1)
        self.client.force_login(User.objects.create_user("ben"))
        page = self.client.get(Order.objects.get().get_absolute_url())
        self.assertEqual(page.status_code, 404)

    def test_a_quantity_out_of_range_is_refused(self) -> None:
        page = self.client.post(
            reverse("orders:add", args=["ruby-swede"]), {"quantity": 0}, follow=True
        )
        self.assertContains(page, "That quantity cannot be ordered.")
        self.assertNotIn("basket", self.client.session)
