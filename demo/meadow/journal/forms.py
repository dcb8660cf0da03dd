"""Forms of the journal."""

from django import forms
from django.utils.translation import gettext_lazy as _

from meadow.pages.forms import form_helper

from .models import Comment


class CommentForm(forms.ModelForm):
    class Meta:
        model = Comment
        fields = ["name", "email", "text"]
        widgets = {"text": forms.Textarea(attrs={"rows": 4})}

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.helper = form_helper(_("Send comment"))
