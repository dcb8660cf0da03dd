"""The live screen of `pasture top`, in Textual.

Owns keys and layout. Reading memory takes milliseconds of a kernel lock for each process: the clock
starts it, not a key.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Header, Static

from pasture.errors import PastureError
from pasture.trust.untrusted_text import printable, printable_lines
from pasture_tools.display.atomic import write_json
from pasture_tools.top import table
from pasture_tools.top.table import COLUMNS, Column
from pasture_tools.top.watch import Limits, Row

_SORTS = " ".join(sorted(column.key for column in COLUMNS if column.key))
"""Keys, shown as one: all of them fit into 60 columns."""

Look = Callable[[], tuple[Row, ...]]


class Explained(ModalScreen[None]):
    """The output of `pasture explain` for one worker."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,e", "dismiss", "Back")]
    CSS = "Explained { background: $background; } Static { padding: 1 2; }"

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(f"explaining {self._pid} ...", id="explained", markup=False)
        yield Footer()

    async def on_mount(self) -> None:
        self.run_worker(self._explain())

    async def _explain(self) -> None:
        # In its own process: it takes half a gigabyte and seconds.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pasture", "explain", str(self._pid)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        self.query_one("#explained", Static).update(
            printable_lines(output.decode(errors="replace"))
        )


class TopApp(App[None]):
    """The screen; `look` reads all processes again, snapshots go to a folder.

    Programs out of an image have no master.
    """

    CSS = "#summary { padding: 0 1; } DataTable { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("e,enter", "explain", "explain"),
        Binding("s", "snapshot", "snapshot"),
        *(
            Binding(key, f"sort('{key}')", "sort", show=key == _SORTS[0], key_display=_SORTS)
            for key in _SORTS.split()
        ),
    ]

    def __init__(
        self,
        master_pid: int | None,
        look: Look,
        interval_s: float = 1.0,
        folder: Path = Path(),
        limits: Callable[[], Limits] = Limits,
        title: str = "",
        columns: Sequence[Column] = COLUMNS,
    ) -> None:
        super().__init__()
        self.title = f"pasture top {title or master_pid}"
        self._columns = columns
        self._master_pid, self._look, self._read_limits = master_pid, look, limits
        self._interval_s, self._folder = interval_s, folder
        self._key = "v"
        self._rows: list[Row] = []
        self._limits = Limits()
        self.error: PastureError | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        yield Static("", id="summary", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._table.add_columns(*(column.title for column in self._columns))
        self.refresh_rows()
        self.set_interval(self._interval_s, self.refresh_rows)

    @property
    def _table(self) -> DataTable[str]:
        return self.query_one(DataTable)

    def refresh_rows(self) -> None:
        """Read and show; a master that has ended closes the screen."""
        try:
            self._rows = list(self._look())
            self._limits = self._read_limits()
        except PastureError as error:
            self.error = error
            self.exit()
            return
        self._show()

    def _show(self) -> None:
        chosen = self._selected()
        self._rows = table.ordered(self._rows, self._key)
        self._table.clear()
        for row in self._rows:
            self._table.add_row(*(column.text(row) for column in self._columns), key=str(row.pid))
        pids = [row.pid for row in self._rows]
        if chosen in pids:
            self._table.move_cursor(row=pids.index(chosen))
        dangers = table.dangers(self._rows, self._limits)
        said = (self._limits.state, table.summary(self._rows), dangers)
        lines = filter(None, (*said, table.limits(self._limits)))
        self.query_one("#summary", Static).update("\n".join(lines))

    def _selected(self) -> int | None:
        at = self._table.cursor_row
        return self._rows[at].pid if 0 <= at < len(self._rows) else None

    def action_sort(self, key: str) -> None:
        self._key = key
        self._show()

    def action_explain(self) -> None:
        pid = self._selected()
        if pid is not None:
            self.push_screen(Explained(pid))

    def on_data_table_row_selected(self) -> None:
        self.action_explain()

    def action_snapshot(self) -> None:
        """Write the table to a file named after the time."""
        name = f"pasture-top-{datetime.now():%Y%m%d-%H%M%S}.json"
        document = table.as_document(self._master_pid, self._rows, self._limits)
        try:
            write_json(self._folder / name, document)
        except PastureError as error:
            self.notify(printable(error.message), severity="error", markup=False)
            return
        self.notify(f"written to {self._folder / name}", markup=False)
