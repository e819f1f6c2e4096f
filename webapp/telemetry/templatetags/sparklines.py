"""`{% sparkline values "words" %}`: the small picture of a series in a table."""

from collections.abc import Sequence

from django import template
from django.utils.safestring import SafeString, mark_safe

from webapp.telemetry.sparkline import sparkline_svg

register = template.Library()


@register.simple_tag
def sparkline(values: Sequence[float | None] | None, label: str = "") -> SafeString:
    """Nothing at all for a series that was never measured."""
    if not values or all(value is None for value in values):
        return mark_safe(f'<span class="unknown" title="{_REASON}">–</span>')
    return mark_safe(sparkline_svg(values, label=label))


_REASON = "nothing has been measured in this time"
