"""Desired + observed → what to do next, for one model on one runtime. Pure.

The rules, in order of weight: what serves keeps serving; no request meets a version that the traffic
table does not name; a version that cannot be loaded does not keep the others from being loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

READY = "READY"
IN_USE = frozenset({READY, "LOADING", "UNLOADING"})


@dataclass(frozen=True, slots=True)
class Share:
    version: int
    role: str
    weight: float


@dataclass(frozen=True, slots=True)
class WantedTable:
    generation: int
    arms: tuple[Share, ...]  # none: the model has no table, requests go to its newest version

    @property
    def weighty(self) -> frozenset[int]:
        return frozenset(arm.version for arm in self.arms if arm.weight > 0)

    @property
    def stable(self) -> frozenset[int]:
        return frozenset(arm.version for arm in self.arms if arm.role == "stable")


@dataclass(frozen=True, slots=True)
class ModelPicture:
    wanted: frozenset[int]
    observed: Mapping[int, str] = field(default_factory=dict)  # version → state of the index
    held_back: frozenset[int] = frozenset()  # failed to load; not to be tried now
    config_current: bool = True  # the runtime was last loaded with the config we would give it
    reload_held: bool = False  # it refused that config, and it is not to be tried again now
    unload_held: bool = False  # it refused to unload, likewise
    table: WantedTable | None = None
    tabled: bool = False  # the runtime has a table for the model
    table_current: bool = False  # and it is the one we want
    splits: bool = True  # the runtime has traffic tables at all

    @property
    def loadable(self) -> frozenset[int]:
        """Wanted, and serving already or worth a try."""
        return self.wanted - (self.held_back - self.ready)

    @property
    def ready(self) -> frozenset[int]:
        return frozenset(number for number, state in self.observed.items() if state == READY)


@dataclass(frozen=True, slots=True)
class Load:
    """Load exactly these versions; others of the model are unloaded by it."""

    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unload:
    pass


@dataclass(frozen=True, slots=True)
class PushTable:
    """`stable_only`: an interim table, one generation below, for as long as a canary is loading."""

    stable_only: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    pass


Action = Load | Unload | PushTable | DropTable


def next_actions(picture: ModelPicture) -> list[Action]:
    """Empty when observed matches desired, or nothing can be done about it now."""
    if not picture.wanted:
        return _take_out(picture)
    loadable = picture.loadable
    if not loadable:
        return [Unload()] if picture.ready and not picture.unload_held else []
    first: list[Action] = []
    if _serves_untabled(picture, loadable):
        first = _stable_first(picture, loadable)
    changes = bool(picture.ready - picture.wanted) or not picture.config_current
    needs_load = not loadable <= picture.ready or (changes and not picture.reload_held)
    load: list[Action] = [Load(tuple(sorted(loadable)))] if needs_load else []
    after = loadable if needs_load else picture.ready
    before_load = picture.ready | (frozenset() if not first else _stable(picture, loadable))
    return first + _around(picture, load, before_load, after)


def _take_out(picture: ModelPicture) -> list[Action]:
    if picture.unload_held:
        return []
    actions: list[Action] = []
    if any(state in IN_USE for state in picture.observed.values()):
        actions.append(Unload())
    if picture.tabled:
        actions.append(DropTable())
    return actions


def _stable(picture: ModelPicture, loadable: frozenset[int]) -> frozenset[int]:
    return picture.table.stable & loadable if picture.table is not None else frozenset()


def _serves_untabled(picture: ModelPicture, loadable: frozenset[int]) -> bool:
    """Loading all at once would send every request to the newest version until the table is there."""
    return (
        picture.splits
        and not picture.tabled
        and picture.table is not None
        and len(loadable) > 1
        and not picture.ready
        and bool(_stable(picture, loadable))
    )


def _stable_first(picture: ModelPicture, loadable: frozenset[int]) -> list[Action]:
    assert picture.table is not None
    stable = _stable(picture, loadable)
    actions: list[Action] = [Load(tuple(sorted(stable)))]
    if not picture.table.weighty <= stable and picture.table.generation > 1:
        actions.append(PushTable(stable_only=True))
    return actions


def _around(
    picture: ModelPicture, load: list[Action], ready: frozenset[int], after: frozenset[int]
) -> list[Action]:
    """The table goes out before the load when it can, so that a new version meets no traffic."""
    table = picture.table
    if not picture.splits or table is None:
        return load
    if not table.arms:
        return load + ([DropTable()] if picture.tabled else [])
    if picture.table_current:
        return load
    if table.weighty <= ready:
        return [PushTable(), *load]
    return [*load, PushTable()] if table.weighty <= after else load
