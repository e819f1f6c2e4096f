"""`{% track_small diagram %}` and `{% track_large diagram %}`: the track diagram in templates."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from webapp.core.track_diagram import Diagram, diagram_of_traffic, large_svg, small_svg

register = template.Library()


def _diagram(value: Any) -> Diagram:
    return value if isinstance(value, Diagram) else diagram_of_traffic(value)


@register.simple_tag
def track_small(diagram: Any) -> SafeString:
    """`diagram`: a Diagram, or a body in the API's `traffic` shape."""
    return SafeString(
        small_svg(_diagram(diagram))
    )  # every text in it is escaped where it is written


@register.simple_tag
def track_large(diagram: Any) -> SafeString:
    return SafeString(large_svg(_diagram(diagram)))
