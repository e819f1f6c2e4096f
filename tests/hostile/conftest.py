"""Hostile uploads need a home and the ways in."""

from tests.webapp.catalog.conftest import home, publishing

__all__ = ["home", "publishing"]
