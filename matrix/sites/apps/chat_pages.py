"""The pages of the chat."""

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt


def _query(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if statement.startswith("SELECT") else cursor.rowcount


@csrf_exempt
def rooms(request):
    """List rooms, or make one."""
    if request.method == "POST":
        _query("INSERT INTO rooms (name) VALUES (%s)", request.POST["name"])
    return JsonResponse({"rooms": [row[0] for row in _query("SELECT name FROM rooms")]})


@csrf_exempt
def remove(request, name):
    """Remove a room."""
    return JsonResponse({"removed": _query("DELETE FROM rooms WHERE name = %s", name)})


@csrf_exempt
def announce(request, name):
    """Say something to a room, from a page."""
    message = {"type": "said", "text": request.POST["text"]}
    async_to_sync(get_channel_layer().group_send)(name, message)
    return JsonResponse({"sent": True})


urlpatterns = [
    path("", rooms),
    path("rooms", rooms),
    path("rooms/<str:name>/remove", remove),
    path("rooms/<str:name>/announce", announce),
]
