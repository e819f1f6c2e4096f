"""HTTP and websockets behind one application."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

from django.core.asgi import get_asgi_application

_http = get_asgi_application()  # loads the apps, which routing needs

from channels.routing import ProtocolTypeRouter  # noqa: E402

from webapp.core.lifespan import Lifespan  # noqa: E402
from webapp.routing import websocket  # noqa: E402
from webapp.uploads.body_limit import BodyLimit  # noqa: E402

application = ProtocolTypeRouter(
    {"http": BodyLimit(_http), "websocket": websocket, "lifespan": Lifespan()}
)
