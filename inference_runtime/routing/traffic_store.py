"""The traffic tables in force, by model: replaced whole, never by an older one, and kept on disk."""

import asyncio
import logging
from pathlib import Path
from typing import Any

from inference_runtime.errors import Conflict, NotFound, RuntimeFault
from inference_runtime.lifecycle.state_file import StateFile
from inference_runtime.spec.traffic import TrafficTable, read_table, table_body

logger = logging.getLogger(__name__)

FILE_NAME = "traffic.json"


class TrafficStore:
    def __init__(self, state_directory: Path | None) -> None:
        self._file = StateFile(state_directory, FILE_NAME)
        self._tables: dict[str, TrafficTable] = {}
        # Generations of tables that were deleted: a late, older table must not come back to life.
        self._deleted: dict[str, int] = {}
        self.changing = asyncio.Lock()  # one change after the other, in the order they came

    def restore(self) -> None:
        body = self._file.read()
        if body is None:
            return
        try:
            tables = [read_table(entry["model"], entry) for entry in body["tables"]]
            deleted = {str(name): int(number) for name, number in body["deleted"].items()}
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeFault) as error:
            self._file.refuse(f"a table is not understood: {error!r}")
            return
        self._tables = {table.model: table for table in tables}
        self._deleted = deleted

    def tables(self) -> list[TrafficTable]:
        return [self._tables[name] for name in sorted(self._tables)]

    def find(self, model: str) -> TrafficTable | None:
        return self._tables.get(model)

    def get(self, model: str) -> TrafficTable:
        table = self._tables.get(model)
        if table is None:
            raise NotFound(f"model '{model}' has no traffic table")
        return table

    def check(self, table: TrafficTable) -> bool:
        """Whether the table would change anything; raises Conflict when a newer one is in force."""
        current = self._tables.get(table.model)
        if current is not None:
            if table == current:
                return False
            if table.generation <= current.generation:
                raise Conflict(
                    f"generation {table.generation} of the traffic table of '{table.model}' is not newer "
                    f"than generation {current.generation}, which is in force"
                )
        elif table.generation <= self._deleted.get(table.model, 0):
            raise Conflict(
                f"the traffic table of '{table.model}' was deleted at generation "
                f"{self._deleted[table.model]}, which generation {table.generation} does not exceed"
            )
        return True

    async def put(self, table: TrafficTable) -> None:
        """In force and on disk when it returns, and neither before. The caller holds `changing`."""
        tables = {**self._tables, table.model: table}
        deleted = {name: n for name, n in self._deleted.items() if name != table.model}
        await self._replace(tables, deleted)

    async def delete(self, model: str, generation: int | None) -> None:
        """A table that is not there is deleted already; with a generation, later puts must exceed it."""
        current = self._tables.get(model)
        if current is not None and generation is not None and generation < current.generation:
            raise Conflict(
                f"generation {generation} is older than generation {current.generation} of the "
                f"traffic table of '{model}', which is in force"
            )
        tables = {name: table for name, table in self._tables.items() if name != model}
        deleted = dict(self._deleted)
        if generation is not None:
            deleted[model] = max(generation, deleted.get(model, 0))
        await self._replace(tables, deleted)

    async def _replace(self, tables: dict[str, TrafficTable], deleted: dict[str, int]) -> None:
        if tables == self._tables and deleted == self._deleted:
            return
        await asyncio.to_thread(self._file.write, _body(tables, deleted))
        self._tables, self._deleted = tables, deleted


def _body(tables: dict[str, TrafficTable], deleted: dict[str, int]) -> dict[str, Any]:
    return {
        "tables": [table_body(table) for _, table in sorted(tables.items())],
        "deleted": deleted,
    }
