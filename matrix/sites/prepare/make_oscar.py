"""A shop with twelve products in stock, and a manager."""

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402

call_command("migrate", verbosity=0)

from oscar.apps.address.models import Country  # noqa: E402
from oscar.apps.catalogue.models import Category, Product, ProductClass  # noqa: E402
from oscar.apps.partner.models import Partner, StockRecord  # noqa: E402

Country.objects.create(
    iso_3166_1_a2="DE", printable_name="Germany", name="GERMANY", is_shipping_country=True
)
kind = ProductClass.objects.create(name="Book")
category = Category.add_root(name="Books")
partner = Partner.objects.create(name="P", code="p")
for number in range(12):
    product = Product.objects.create(
        title=f"Book {number}", product_class=kind, description="text " * 20
    )
    product.categories.add(category)
    StockRecord.objects.create(
        product=product, partner=partner, partner_sku=f"s{number}", price=number + 1,
        price_currency="GBP", num_in_stock=100,
    )  # fmt: skip
get_user_model().objects.create_superuser("manager", "m@example.com", "Very-secret-1")
