from django.urls import path

from . import views

app_name = "orders"

urlpatterns = [
    path("basket/", views.BasketView.as_view(), name="basket"),
    path("basket/add/<slug:slug>/", views.BasketAddView.as_view(), name="add"),
    path("basket/remove/<slug:slug>/", views.BasketRemoveView.as_view(), name="remove"),
    path("checkout/", views.CheckoutView.as_view(), name="checkout"),
    path("orders/", views.OrderListView.as_view(), name="history"),
    path("orders/<str:number>/", views.OrderDetailView.as_view(), name="order"),
    path("collection/", views.CollectionPointListView.as_view(), name="points"),
    path("boxes/", views.BoxListView.as_view(), name="boxes"),
    path("boxes/subscribe/", views.SubscribeView.as_view(), name="subscribe"),
    path("boxes/<slug:slug>/", views.BoxDetailView.as_view(), name="box"),
]
