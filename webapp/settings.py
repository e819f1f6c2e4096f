"""Every Django setting. Values from the environment come through webapp.env only."""

import secrets
from pathlib import Path

import dj_database_url
from csp.constants import NONE, SELF

from webapp import env

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = env.directory("SWITCHYARD_HOME", BASE_DIR / "var")
HOME.mkdir(parents=True, exist_ok=True)


def _secret_key() -> str:
    """The key from the environment, else one made on first start and kept beside the data."""
    if given := env.optional_text("SWITCHYARD_SECRET_KEY"):
        return given
    path = HOME / "secret_key"
    try:
        with path.open("x") as file:
            path.chmod(0o600)
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    return path.read_text()


SECRET_KEY = _secret_key()
DEBUG = env.boolean("SWITCHYARD_DEBUG", False)
ALLOWED_HOSTS = env.words("SWITCHYARD_ALLOWED_HOSTS", ["*"])
CSRF_TRUSTED_ORIGINS = env.words("SWITCHYARD_TRUSTED_ORIGINS", [])

# -- Switchyard's own -----------------------------------------------------------------------
REPOSITORY_DIR = HOME / "repository"
UPLOAD_DIR = HOME / "uploads"
# Beside the uploads, so that a form's file is moved into place and not copied.
FILE_UPLOAD_TEMP_DIR = HOME / "incoming"
FILE_UPLOAD_TEMP_DIR.mkdir(exist_ok=True)
STAGING_DIR = HOME / "staging"
QUARANTINE_DIR = HOME / "quarantine"
LOG_DIR = HOME / "logs"
RUNTIME_HOST = env.text("SWITCHYARD_RUNTIME_HOST", "127.0.0.1")
RUNTIME_HTTP_PORT = env.integer("SWITCHYARD_HTTP_PORT", 8000)
RUNTIME_GRPC_PORT = env.integer("SWITCHYARD_GRPC_PORT", 8001)
RUNTIME_METRICS_PORT = env.integer("SWITCHYARD_METRICS_PORT", 8002)
MAX_UPLOAD_BYTES = env.integer("SWITCHYARD_MAX_UPLOAD_BYTES", 10 * 1024**3)
MAX_OPEN_UPLOADS = env.integer("SWITCHYARD_MAX_OPEN_UPLOADS", 20)  # per person
MAX_UNPACKED_BYTES = env.integer("SWITCHYARD_MAX_UNPACKED_BYTES", 20 * 1024**3)
CHECK_MEMORY_BYTES = env.integer("SWITCHYARD_CHECK_MEMORY_BYTES", 8 * 1024**3)
CHECK_SECONDS = env.integer("SWITCHYARD_CHECK_SECONDS", 900)
READY_FILE = env.optional_text("SWITCHYARD_READY_FILE")  # written by a process once it works
ADMIN_PASSWORD = env.optional_text("SWITCHYARD_ADMIN_PASSWORD")  # of the first admin
REDIS_URL = env.text("REDIS_URL", f"unix://{HOME}/redis.sock")

# -- Applications ---------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "csp",
    "webapp.core",
    "webapp.audit",
    "webapp.accounts",
    "webapp.jobs",
    "webapp.uploads",
    "webapp.catalog",
    "webapp.serving",
    "webapp.telemetry",
    "webapp.rollouts",
    "webapp.benchmarks",
    "webapp.dashboard",
]
MIDDLEWARE = [
    "webapp.core.request_id.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "webapp.core.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "webapp.core.page_errors.PageErrorsMiddleware",
]
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.core.page_context.page_context",
            ]
        },
    }
]

# -- Data -----------------------------------------------------------------------------------
# Named by the design for S3, which the control plane does not write to yet: better refused than ignored.
env.choice(
    "STORAGE_URL",
    "local",
    ("local",),
    "The control plane keeps uploads and the model repository under SWITCHYARD_HOME; put that on a shared "
    "volume when several machines need it.",
)

DATABASES = {
    "default": dj_database_url.parse(
        env.text("DATABASE_URL", f"sqlite:///{HOME}/switchyard.sqlite3"), conn_max_age=60
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Web, workers and sampler write at once: WAL lets readers go on, IMMEDIATE takes the write
    # lock at BEGIN (a deferred transaction that upgrades fails at once, whatever the timeout).
    DATABASES["default"]["CONN_MAX_AGE"] = None
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000;",
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "capacity": 64, "expiry": 10},
    }
}
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
# Shared by the worker and by whoever sends a wake-up: a dead broker costs seconds, never a hang.
CELERY_BROKER_OPTIONS = {
    "task_serializer": "json",
    "broker_connection_timeout": 2.0,
    "broker_transport_options": {
        "visibility_timeout": 3600,
        "socket_timeout": 10.0,
        "socket_connect_timeout": 2.0,
        "socket_keepalive": True,
        "health_check_interval": 10,
    },
}

# -- Security -------------------------------------------------------------------------------
BEHIND_TLS = env.boolean("SWITCHYARD_BEHIND_TLS", False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        # Plotly sets style attributes from script and injects its own style element.
        "style-src": [SELF, "'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "dashboard:overview"
LOGOUT_REDIRECT_URL = "accounts:login"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

# -- API ------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "webapp.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["webapp.accounts.permissions.ActionPermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapp.core.parsers.JsonParser"],
    "EXCEPTION_HANDLER": "webapp.core.api.problem_handler",
    "DEFAULT_SCHEMA_CLASS": "webapp.core.schema.ApiAutoSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Switchyard",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "DESCRIPTION": "Models, versions, traffic and measurements of a Switchyard.",
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": ["webapp.core.schema.add_components"],
}

# -- Language, time, files ------------------------------------------------------------------
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATIC_ROOT.mkdir(exist_ok=True)
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webapp.core.finders.PackageFilesFinder",
]
# `make run` serves straight from the source folders, so there is no collect step to forget.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 0 if DEBUG else 2_592_000  # addresses carry the file's version
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.core.static_files.VersionedStorage"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "webapp.core.request_id.RequestIdFilter"},
        "broken_line": {"()": "webapp.core.log_filters.BrokenLineFilter"},
    },
    "formatters": {"line": {"format": "{levelname} {name} [{request_id}] {message}", "style": "{"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["request_id", "broken_line"],
        }
    },
    "loggers": {
        # A line per periodic task and second; jobs write lines of their own.
        name: {"level": "WARNING"}
        for name in ("celery.beat", "celery.worker.strategy", "celery.app.trace")
    },
    "root": {"handlers": ["console"], "level": env.text("SWITCHYARD_LOG_LEVEL", "INFO")},
}
