"""Uploads write to a home of their own and may become versions."""

from tests.webapp.catalog.conftest import home, publishing

__all__ = ["home", "publishing"]
