"""Icons, and badges that give every state word its meaning, icon and tone in one place."""

from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# word → (tone, icon). Tones are the five meanings; moving things are amber, waiting ones grey.
_STATES: dict[str, tuple[str, str]] = {
    "ready": ("good", "good"),
    "available": ("good", "good"),
    "succeeded": ("good", "good"),
    "passed": ("good", "good"),
    "promoted": ("good", "good"),
    "active": ("good", "good"),
    "pass": ("good", "good"),
    "stable": ("stable", "stable"),
    "production": ("stable", "stable"),
    "canary": ("canary", "canary"),
    "staging": ("canary", "canary"),
    "running": ("canary", "running"),
    "progressing": ("canary", "running"),
    "initializing": ("canary", "running"),
    "promoting": ("canary", "running"),
    "validating": ("canary", "running"),
    "loading": ("canary", "running"),
    "unloading": ("canary", "running"),
    "rolling_back": ("canary", "running"),
    "baking": ("canary", "running"),
    "not_ready": ("canary", "warned"),
    "warned": ("canary", "warned"),
    "paused": ("canary", "paused"),
    "inconclusive": ("canary", "warned"),
    "waiting_for_traffic": ("canary", "pending"),
    "failed": ("bad", "bad"),
    "rejected": ("bad", "bad"),
    "unreachable": ("bad", "bad"),
    "rolled_back": ("bad", "bad"),
    "fail": ("bad", "bad"),
    "quarantined": ("idle", "pending"),
    "pending": ("idle", "pending"),
    "queued": ("idle", "pending"),
    "unknown": ("idle", "idle"),
    "unloaded": ("idle", "idle"),
    "archived": ("idle", "idle"),
    "skipped": ("idle", "idle"),
    "cancelled": ("idle", "cancelled"),
    "aborted": ("idle", "cancelled"),
    "superseded": ("idle", "idle"),
    "revoked": ("idle", "cancelled"),
    "expired": ("idle", "cancelled"),
    "deactivated": ("idle", "cancelled"),
}


@register.simple_tag
def icon(name: str) -> SafeString:
    """`{% icon "upload" %}`: decoration beside a word, hidden from screen readers."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>',
        static("img/icons.svg"),
        name,
    )


@register.simple_tag
def state_badge(state: Any, text: str = "") -> SafeString:
    """`{% state_badge version.state %}`: tone and icon of a state, its word in plain case."""
    word = str(state)
    tone, name = _STATES.get(word.lower(), ("idle", "idle"))
    return badge(tone, text or word.replace("_", " ").lower(), name)


@register.simple_tag
def badge(tone: str, text: Any, icon_name: str = "") -> SafeString:
    """`{% badge "canary" "5% of traffic" %}`; the icon is the tone's own unless named."""
    return format_html(
        '<span class="badge badge-{}">{}<span>{}</span></span>', tone, icon(icon_name or tone), text
    )


@register.filter
def tone_of(state: Any) -> str:
    """The tone of a state word, for other classes: `progress-{{ job.state|tone_of }}`."""
    return _STATES.get(str(state).lower(), ("idle", "idle"))[0]


@register.filter
def icon_of(state: Any) -> str:
    return _STATES.get(str(state).lower(), ("idle", "idle"))[1]
