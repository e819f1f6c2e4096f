from django.apps import AppConfig


class UploadsConfig(AppConfig):
    name = "webapp.uploads"
    label = "uploads"
