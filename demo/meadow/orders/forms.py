"""Forms of the basket, the checkout and subscriptions."""

from django import forms
from django.utils.translation import gettext_lazy as _

from meadow.pages.forms import form_helper

from .models import Order, Subscription

MOST_PIECES = 20


class AddToBasketForm(forms.Form):
    quantity = forms.IntegerField(
        label=_("Quantity"), min_value=1, max_value=MOST_PIECES, initial=1
    )


class CheckoutForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ["collection_point", "note"]
        widgets = {"note": forms.Textarea(attrs={"rows": 3})}

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.helper = form_helper(_("Place order"))


class SubscriptionForm(forms.ModelForm):
    class Meta:
        model = Subscription
        fields = ["box", "frequency"]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.helper = form_helper(_("Subscribe"))
