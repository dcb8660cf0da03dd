from django.urls import path
from django.views.generic import TemplateView

from . import views

app_name = "pages"

urlpatterns = [
    path("", views.HomeView.as_view(), name="home"),
    path("search/", views.SearchView.as_view(), name="search"),
    path("contact/", views.ContactView.as_view(), name="contact"),
    path("about/", TemplateView.as_view(template_name="pages/about.html"), name="about"),
]
