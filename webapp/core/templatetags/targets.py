"""API paths as links with a name people use."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.core.targets import name_of, page_of

register = template.Library()


@register.simple_tag
def target_link(target: str, name: str = "") -> SafeString:
    """`{% target_link job.target %}`: resnet50 v3, linked to its page when there is one."""
    page, words = page_of(target), name or name_of(target)
    if not page:
        return format_html('<span title="{}">{}</span>', target, words)
    return format_html('<a href="{}" title="{}">{}</a>', page, target, words)
