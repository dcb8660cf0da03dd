"""A chat: rooms as rows of a database, messages through Redis to all who listen."""

import os
from pathlib import Path

import django
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

settings.configure(
    SECRET_KEY="of-this-test-alone",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="chat_pages",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(Path(os.environ["SITE_DATA"]) / "chat.db"),
            "CONN_MAX_AGE": 60,
        }
    },
    CHANNEL_LAYERS={
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [os.environ["REDIS_URL"]]},
        }
    },
)
django.setup()

from django.urls import path  # noqa: E402


class Room(AsyncJsonWebsocketConsumer):
    """Sends each message to all who are in the room."""

    async def connect(self):
        self.name = self.scope["url_route"]["kwargs"]["name"]
        await self.channel_layer.group_add(self.name, self.channel_name)
        await self.accept()

    async def receive_json(self, content):
        message = {"type": "said", "text": content["text"]}
        await self.channel_layer.group_send(self.name, message)

    async def said(self, event):
        await self.send_json({"text": event["text"]})

    async def disconnect(self, code):
        await self.channel_layer.group_discard(self.name, self.channel_name)


pages = get_asgi_application()
application = ProtocolTypeRouter(
    {"http": pages, "websocket": URLRouter([path("room/<str:name>", Room.as_asgi())])}
)
