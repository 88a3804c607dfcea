"""The own fields of many groups' lag records: columns of text, written and joined in Arrow.

Python takes 60 ms to join the fields of 20,000 groups of 5 partitions one group after another, and
as long again to make records of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from levelwind.streaming.messages.lag_json import (
    Claim,
    OwnFields,
    SharedFields,
    decimal_rows,
    in_order,
    integer_rows,
    set_indices,
    without_unclaimed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.streaming.messages.packing import Arrays
    from levelwind.streaming.rules.event_time import Floats, Int64, Mask

Texts: TypeAlias = Any
"""A `pa.StringArray` with a text for each group, or one text for all of them."""


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """The `OwnFields` of some groups, a column for each field."""

    size: int
    """The number of groups."""
    columns: tuple[Texts, ...]
    """In the order of `OwnFields`."""

    def take(self, rows: Int64) -> OwnColumns:
        """The fields of some groups, in this order."""
        if rows.size == self.size and np.array_equal(rows, np.arange(self.size)):
            return self
        return OwnColumns(rows.size, tuple([_taken(column, rows) for column in self.columns]))

    @classmethod
    def concat(cls, parts: Sequence[OwnColumns]) -> OwnColumns:
        """The fields of the groups of some parts, at least one, in this order."""
        if len(parts) == 1:
            return parts[0]
        sizes = [part.size for part in parts]
        columns = zip(*[part.columns for part in parts], strict=True)
        return cls(sum(sizes), tuple([_concat(column, sizes) for column in columns]))

    def row(self, index: int) -> OwnFields:
        """The fields of one group."""
        return OwnFields._make(
            column if isinstance(column, str) else column[index].as_py() for column in self.columns
        )

    def records(
        self, shared: Sequence[Texts], local: Texts, members: Texts, claims: Int64
    ) -> Sequence[bytes]:
        """The values of the groups' lag records, as `lag_json.record_text` writes each.

        Args:
            shared: the `SharedFields` of each group's topic.
            local: the field `local` of each group.
            members: the fields of each group that name its members.
            claims: by group, the `Claim` of what it claims beside what its members own.
        """
        own = self._without_unclaimed(members, claims)
        first, *others = in_order(shared, own.columns, local, members)
        return texts_as_bytes(joined("{", _without_comma(first), *others, "}"), self.size)

    def _without_unclaimed(self, members: Texts, claims: Int64) -> OwnColumns:
        """These fields, with the partitions that nobody claims told apart from lag."""
        uncommitted = self.columns[-1]
        has_any = np.full(self.size, bool(uncommitted))
        if not isinstance(uncommitted, str):
            has_any = pc.not_equal(uncommitted, "").to_numpy(zero_copy_only=False)
        maybe = (claims == Claim.NONE) | ((claims == Claim.COMMITTED) & has_any)
        changed = np.flatnonzero(maybe).tolist()
        if not changed:
            return self
        fields = {
            row: without_unclaimed(
                self.row(row),
                members if isinstance(members, str) else members[row].as_py(),
                Claim(claims[row]),
            )
            for row in changed
        }
        columns = [self._replaced(index, fields) for index in range(len(self.columns))]
        return OwnColumns(self.size, tuple(columns))

    def _replaced(self, index: int, fields: Mapping[int, OwnFields]) -> Texts:
        """A column with the texts of some groups replaced."""
        column = self.columns[index]
        texts = [column] * self.size if isinstance(column, str) else column.to_pylist()
        for row, of_row in fields.items():
            texts[row] = of_row[index]
        return pa.array(texts, pa.string())

    # -- as arrays, to be packed

    def pack(self) -> tuple[list[str | None], Arrays]:
        """The texts that are the same for all groups, None where they differ; and the others."""
        arrays: Arrays = {}
        same: list[str | None] = []
        for name, column in zip(OwnFields._fields, self.columns, strict=True):
            if isinstance(column, str):
                same.append(column)
                continue
            same.append(None)
            _, offsets, content = column.buffers()
            ends = np.frombuffer(offsets, np.int32)[column.offset :][: self.size + 1]
            text = b"" if content is None else content
            arrays[f"{name}_ends"] = ends - ends[:1]
            arrays[name] = np.frombuffer(text, np.uint8)[ends[0] : ends[-1]]
        return same, arrays

    @classmethod
    def unpack(cls, size: int, same: Sequence[str | None], arrays: Arrays) -> OwnColumns:
        """The fields of so many groups, from what `pack` gave."""
        columns = [
            text
            if text is not None
            else pa.StringArray.from_buffers(
                size,
                pa.py_buffer(arrays[f"{name}_ends"].astype(np.int32)),  # aligned, as Arrow needs
                pa.py_buffer(arrays[name]),
            )
            for name, text in zip(OwnFields._fields, same, strict=True)
        ]
        return cls(size, tuple(columns))


def own_columns(
    *,
    committed: Int64,
    committed_at: Int64,
    lag: Int64,
    lag_upper_bound: Mask,
    lost: Int64,
    reset: Mask,
    seconds: Floats,
    seconds_lower_bound: Mask,
    source: Texts,
    stale: Mask,
    velocity: Floats,
    uncommitted: Mask,
) -> OwnColumns:
    """The fields of each group; matrices are groups by partitions, `source` is JSON."""
    columns = OwnFields(
        committed=joined(
            ',"committed":[',
            integer_rows(committed),
            '],"committed_at":[',
            integer_rows(committed_at),
            "]",
        ),
        lag=joined(
            ',"lag":[',
            integer_rows(lag),
            "]",
            _named("lag_upper_bound", lag_upper_bound),
        ),
        lost=joined(',"lost":[', integer_rows(lost), "]"),
        seconds=joined(
            _named("reset", reset),
            _figures("seconds", seconds),
            _named("seconds_lower_bound", seconds_lower_bound),
            ',"source":',
            source,
            ',"stale":',
            _indices(stale, none="[]"),
        ),
        velocity=_figures("velocity", velocity),
        uncommitted=_indices(uncommitted, none=""),
    )
    return OwnColumns(lag.shape[0], tuple(columns))


def joined(*parts: Texts) -> Texts:
    """Texts of parts, for each group."""
    if all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return pc.binary_join_element_wise(*parts, "")


def texts_as_bytes(texts: Texts, size: int) -> Sequence[bytes]:
    """Texts as bytes, for each of so many groups."""
    if isinstance(texts, str):
        return [texts.encode()] * size
    content: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return content


def shared_texts(parts: Sequence[SharedFields], part: Int64) -> list[Texts]:
    """For each row, given its part, the texts of `SharedFields`."""
    index = pa.array(part)
    return [
        texts[0] if len(set(texts)) == 1 else pa.array(texts, pa.string()).take(index)
        for texts in zip(*parts, strict=True)
    ]


def _without_comma(texts: Texts) -> Texts:
    """Fields without the comma before the first."""
    return texts[1:] if isinstance(texts, str) else pc.utf8_slice_codeunits(texts, 1)


def _concat(columns: Sequence[Texts], sizes: Sequence[int]) -> Texts:
    """The texts of parts of such sizes, one after another."""
    if all(isinstance(column, str) for column in columns) and len(set(columns)) == 1:
        return columns[0]
    return pa.concat_arrays(
        [
            pa.array([column] * size, pa.string()) if isinstance(column, str) else column
            for column, size in zip(columns, sizes, strict=True)
        ]
    )


def _taken(column: Texts, rows: Int64) -> Texts:
    return column if isinstance(column, str) else column.take(pa.array(rows))


def _indices(mask: Mask, none: str) -> Texts:
    """For each row, a JSON list of the set indices; `none` where none is set."""
    return set_indices(mask, none) if mask.any() else none


def _named(name: str, mask: Mask) -> Texts:
    """A field of the set indices for each row that has any."""
    values = _indices(mask, none="")
    if isinstance(values, str):
        return ""
    return pc.if_else(pc.equal(values, ""), "", joined(f',"{name}":', values))


def _figures(name: str, matrix: Floats) -> Texts:
    """A field for each row but those of NaN alone."""
    unknown = np.isnan(matrix).all(axis=1)
    written = None if unknown.all() else decimal_rows(matrix)
    if written is None:
        return ""
    field = joined(f',"{name}":[', written, "]")
    return pc.if_else(pa.array(unknown), "", field) if unknown.any() else field
