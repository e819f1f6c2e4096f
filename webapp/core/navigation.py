"""The rail: six groups, each a list of pages by URL name. A page that is not there is left out."""

from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse


@dataclass(frozen=True)
class Entry:
    label: str
    url_name: str
    key: str = ""  # second key of the `g …` shortcut
    admin_only: bool = False


@dataclass(frozen=True)
class Group:
    label: str
    short: str  # under the icon of the bottom bar
    icon: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Link:
    label: str
    url: str
    current: bool
    key: str


@dataclass(frozen=True)
class Section:
    label: str
    short: str
    icon: str
    current: bool
    links: tuple[Link, ...]

    @property
    def url(self) -> str:
        return self.links[0].url


GROUPS: tuple[Group, ...] = (
    Group("Overview", "Overview", "overview", (Entry("Overview", "dashboard:overview", "o"),)),
    Group(
        "Models",
        "Models",
        "models",
        (
            Entry("Models", "dashboard:models", "m"),
            Entry("Upload", "catalog:upload", "u"),
        ),
    ),
    Group("Rollouts", "Rollouts", "rollouts", (Entry("Rollouts", "rollouts:list", "r"),)),
    Group(
        "Builds & benchmarks",
        "Measure",
        "benchmarks",
        (Entry("Benchmarks", "benchmarks:list", "b"),),
    ),
    Group(
        "Runtimes & live",
        "Live",
        "runtimes",
        (Entry("Live", "telemetry:live", "l"), Entry("Runtimes", "serving:runtimes", "s")),
    ),
    Group(
        "Admin",
        "Admin",
        "admin",
        (
            Entry("Jobs", "jobs:list", "j"),
            Entry("Audit", "dashboard:audit", "a"),
            Entry("People", "accounts:people", "p", admin_only=True),
            Entry("Your account", "accounts:account", "y"),
            Entry("API", "api-docs", "d"),
        ),
    ),
)


def sections(*, path: str, is_admin: bool) -> list[Section]:
    """The groups that have at least one page, with the longest match of `path` marked as current."""
    found: list[tuple[Group, list[tuple[Entry, str]]]] = []
    for group in GROUPS:
        links = [
            (entry, url)
            for entry in group.entries
            if (is_admin or not entry.admin_only) and (url := _url(entry.url_name))
        ]
        if links:
            found.append((group, links))
    urls = [url for _, links in found for _, url in links]
    here = max((url for url in urls if _within(path, url)), key=len, default="")
    return [
        Section(
            label=group.label,
            short=group.short,
            icon=group.icon,
            current=any(url == here for _, url in links),
            links=tuple(Link(entry.label, url, url == here, entry.key) for entry, url in links),
        )
        for group, links in found
    ]


def _url(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


def _within(path: str, url: str) -> bool:
    return path == url or (url != "/" and path.startswith(url.rstrip("/") + "/"))
