"""The contact form, and the look that all of the site's own forms share."""

from crispy_forms.helper import FormHelper
from crispy_forms.layout import Submit
from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from .models import Enquiry


def form_helper(submit_label: str | Promise, method: str = "post") -> FormHelper:
    """A crispy helper with one submit button, for a form that stands alone."""
    helper = FormHelper()
    helper.form_method = method
    helper.form_show_errors = True
    helper.add_input(Submit("", submit_label))
    return helper


class EnquiryForm(forms.ModelForm):
    class Meta:
        model = Enquiry
        fields = ["topic", "name", "email", "message"]
        widgets = {"message": forms.Textarea(attrs={"rows": 6})}

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.helper = form_helper(_("Send"))
