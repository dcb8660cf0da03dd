"""Python objects of another process: types, their fields and names, strings, dictionaries.

Reads memory by the offsets that the extension knows for one version of CPython. What does
not look like the object it should be is reported as absent; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pasture.interpreter import Fields
from pasture.proc.os_page import OS_PAGE_BYTES
from pasture_tools.explain.allocator import pool_addresses
from pasture_tools.proc.address_space import WORD_BYTES, AddressSpace, Array

_MAX_TEXT = 1000
_MAX_MEMBERS = 2000
_MAX_MEMBERS_IN_ALL = 200_000
_MAX_BASES = 100
_MAX_NAMES = 2000
_MAX_BASIC_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class TypeInfo:
    address: int  # address of the type object
    name: str  # tp_name; heap types without their module
    flags: frozenset[str]  # names of those of tp_flags that count here, as in "HAVE_GC"
    basic_bytes: int  # tp_basicsize
    # weakref_offset, dict_offset: places in an instance, bytes; 0 or negative: an instance has no
    # such place.
    weakref_offset: int
    dict_offset: int
    # Name by offset of its slots and members, those of its bases included.
    members: dict[int, str] = field(default_factory=dict)


class Objects:
    """A reader of the objects of one process.

    Attributes:
        met: types that objects were recognised by, by address.
    """

    def __init__(self, space: AddressSpace, fields: Fields) -> None:
        self.space = space
        self.fields = fields
        self.met: dict[int, TypeInfo] = {}
        self._types: dict[int, TypeInfo | None] = {}
        self._pools: Array | None = None
        self._being_read: set[int] = set()
        self._members_left = _MAX_MEMBERS_IN_ALL

    @property
    def pools(self) -> Array:
        """Addresses of the process's pools, read once: no type lies in one."""
        if self._pools is None:
            self._pools = pool_addresses(self.space)
        return self._pools

    def type_at(self, address: int) -> TypeInfo | None:
        """The type at an address, or None."""
        if address not in self._types:
            # Memory may hold anything: types that are each other's bases, or too many of them.
            if address in self._being_read or len(self._being_read) > _MAX_BASES:
                return None
            self._being_read.add(address)
            try:
                self._types[address] = self._read_type(address) if self._is_type(address) else None
            finally:
                self._being_read.discard(address)
        return self._types[address]

    def type_of(self, address: int) -> TypeInfo | None:
        """The type of the object at an address."""
        return self.type_at(self._pointer(address, "object", "ob_type"))

    def _is_type(self, address: int, depth: int = 4) -> bool:
        """Whether the chain of metatypes ends in the one type that is its own type."""
        if address < OS_PAGE_BYTES or address % 8 or not depth:
            return False
        meta = self._pointer(address, "object", "ob_type")
        if meta != address and not self._is_type(meta, depth - 1):
            return False
        return "TYPE_SUBCLASS" in self._flags(self._pointer(meta, "type", "tp_flags"))

    def _read_type(self, address: int) -> TypeInfo | None:
        at = self.fields["type"]
        data = self.space.read(address, at["members"])
        if len(data) < at["tp_version_tag"]:
            return None

        def signed(name: str) -> int:
            return int.from_bytes(data[at[name] : at[name] + 8], "little", signed=True)

        name = self.c_string(signed("tp_name"))
        base = signed("tp_base")
        inherited = self.type_at(base) if base and base != address else None
        members = dict(inherited.members) if inherited else {}
        members.update(self._members(signed("tp_members")))
        return TypeInfo(
            address,
            name or "?",
            self._flags(signed("tp_flags")),
            max(0, min(signed("tp_basicsize"), _MAX_BASIC_BYTES)),
            signed("tp_weaklistoffset"),
            signed("tp_dictoffset"),
            members,
        )

    def _flags(self, flags: int) -> frozenset[str]:
        return frozenset(n for n, bit in self.fields["(type flags)"].items() if flags >> bit & 1)

    def _members(self, address: int) -> dict[int, str]:
        """Name by offset from a PyMemberDef array."""
        found: dict[int, str] = {}
        at = self.fields["(member)"]
        for i in range(min(_MAX_MEMBERS, self._members_left) if address else 0):
            self._members_left -= 1
            row = self.space.read(address + i * at["bytes"], at["bytes"])
            name = self.c_string(int.from_bytes(row[at["name"] :][:WORD_BYTES], "little"))
            if not name:
                break
            offset = row[at["offset"] :][:WORD_BYTES]
            found[int.from_bytes(offset, "little", signed=True)] = name
        return found

    def qualified_type_name(self, address: int) -> str:
        """A type's name with its module, where that is known."""
        info = self.type_at(address)
        if info is None:
            return "?"
        if "HEAPTYPE" not in info.flags:
            return info.name
        qualname = self.text(self._pointer(address, "type", "ht_qualname")) or info.name
        module = self.dict_get(self._pointer(address, "type", "tp_dict"), "__module__")
        named = self.text(module) if module else None
        return f"{named}.{qualname}" if named and named != "builtins" else qualname

    def c_string(self, address: int) -> str:
        """A NUL-terminated string, shortened; "" if nothing is mapped."""
        if address <= 0:
            return ""
        data = self.space.read(address, 256)
        if not data:  # nothing is mapped behind the page
            data = self.space.read(address, OS_PAGE_BYTES - address % OS_PAGE_BYTES)
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")

    def text(self, address: int) -> str | None:
        """The value of a str, shortened; None for an object of another type."""
        kind = self.type_of(address) if address else None
        if kind is None or kind.name != "str":
            return None
        at = self.fields["str"]
        state = self.space.word(address + at["state"])
        mask = self.fields["(str state)"]
        width = (state & mask["kind"]) // (mask["kind"] & -mask["kind"])
        if not state & mask["compact"] or width not in (1, 2, 4):
            return None
        length = min(self._pointer(address, "str", "length"), _MAX_TEXT)
        start = address + at["ascii_data" if state & mask["ascii"] else "compact_data"]
        data = self.space.read(start, length * width)
        codec = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width]
        return data.decode(codec, "replace")

    def dict_items(self, address: int, most: int = 100_000) -> list[tuple[int, int, int]]:
        """Key, value and address of the value's cell of each entry of a dictionary."""
        keys = self._pointer(address, "dict", "ma_keys")
        values = self._pointer(address, "dict", "ma_values")
        cells = values + self.fields["values"]["values"] if values else 0
        return self.keys_items(keys, cells, most)

    def keys_items(self, keys: int, cells: int, most: int = 100_000) -> list[tuple[int, int, int]]:
        """The entries of a key table; `cells` is where split values begin, or 0."""
        at = self.fields["keys"]
        head = self.space.read(keys, at["dk_indices"])
        if len(head) < at["dk_indices"]:
            return []
        count = int.from_bytes(head[at["dk_nentries"] :][:8], "little", signed=True)
        if not 0 <= count <= 1 << 32:
            return []
        entry_bytes = key_entry_bytes(self.fields, head)
        start = keys + at["dk_indices"] + (1 << min(head[at["dk_log2_index_bytes"]], 40))
        data = self.space.read(start, min(count, most) * entry_bytes)
        found = []
        for i in range(len(data) // entry_bytes):
            row = data[i * entry_bytes : (i + 1) * entry_bytes]
            key = int.from_bytes(row[-2 * WORD_BYTES : -WORD_BYTES], "little")
            last = start + (i + 1) * entry_bytes - WORD_BYTES
            cell = cells + i * WORD_BYTES if cells else last
            value = self.space.word(cell) if cells else int.from_bytes(row[-WORD_BYTES:], "little")
            if key and value:
                found.append((key, value, cell))
        return found

    def dict_get(self, address: int, key: str) -> int:
        """The value under a text key, or 0."""
        for name, value, _ in self.dict_items(address, _MAX_NAMES) if address else ():
            if self.text(name) == key:
                return value
        return 0

    def _pointer(self, address: int, holder: str, name: str) -> int:
        return self.space.word(address + self.fields[holder][name])


def key_entry_bytes(fields: Fields, head: bytes) -> int:
    """Bytes of an entry of a key table, by its head; its last two words are key and value."""
    size = fields["(keys)"]
    is_general = head[fields["keys"]["dk_kind"]] == size["general"]
    return size["general_entry_bytes" if is_general else "unicode_entry_bytes"]
