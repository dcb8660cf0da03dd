"""Forms of the catalogue."""

from django import forms
from django.utils.translation import gettext_lazy as _

from meadow.pages.forms import form_helper

from .models import Review


class ReviewForm(forms.ModelForm):
    rating = forms.TypedChoiceField(
        label=_("Rating"),
        coerce=int,
        choices=[(n, "★" * n) for n in range(5, 0, -1)],
        widget=forms.RadioSelect,
    )

    class Meta:
        model = Review
        fields = ["rating", "title", "text"]
        widgets = {"text": forms.Textarea(attrs={"rows": 5})}

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.helper = form_helper(_("Send review"))
