"""Admin of enquiries, and the admin's titles."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from .models import Enquiry

admin.site.site_header = _("Meadow office")
admin.site.site_title = _("Meadow office")
admin.site.index_title = _("Market and journal")


@admin.register(Enquiry)
class EnquiryAdmin(admin.ModelAdmin):
    list_display = ["name", "topic", "sent_at", "is_answered"]
    list_filter = ["topic", "is_answered"]
    search_fields = ["name", "email", "message"]
