"""The home page, search over all apps, and the contact form."""

from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.generic import CreateView, TemplateView

from meadow.catalog.models import Farm, Product, Region
from meadow.journal.models import Event, Recipe
from meadow.journal.views import published_articles

from .forms import EnquiryForm

SEARCH_RESULTS_A_KIND = 12


class HomeView(TemplateView):
    template_name = "pages/home.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        listed = Product.objects.listed().for_cards()
        this_month = timezone.localdate().month
        in_season = listed.in_season(this_month).exclude(season_start=1, season_end=12)
        return super().get_context_data(
            new_products=listed.order_by("-listed_on", "pk")[:10],
            seasonal_products=in_season.order_by("season_end", "pk")[:10],
            articles=published_articles()[:3],
            recipes=Recipe.objects.select_related("contributor")[:4],
            events=Event.objects.select_related("farm")[:5],
            regions=Region.objects.all(),
            **kwargs,
        )


class SearchView(TemplateView):
    template_name = "pages/search.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        words = self.request.GET.get("q", "").strip()
        results = self._results(words) if words else {}
        return super().get_context_data(words=words, **results, **kwargs)

    def _results(self, words: str) -> dict[str, Any]:
        in_product = Q(name__icontains=words) | Q(description__icontains=words)
        in_article = Q(title__icontains=words) | Q(body__icontains=words)
        in_farm = Q(name__icontains=words) | Q(story__icontains=words)
        found = {
            "products": Product.objects.listed().for_cards().filter(in_product),
            "farms": Farm.objects.trading().select_related("region").filter(in_farm),
            "articles": published_articles().filter(in_article),
            "recipes": Recipe.objects.filter(title__icontains=words),
        }
        return {kind: rows[:SEARCH_RESULTS_A_KIND] for kind, rows in found.items()}


class ContactView(CreateView):
    form_class = EnquiryForm
    template_name = "pages/contact.html"
    success_url = reverse_lazy("pages:home")

    def form_valid(self, form: EnquiryForm) -> Any:
        messages.success(self.request, _("Thank you. We will answer soon."))
        return super().form_valid(form)
