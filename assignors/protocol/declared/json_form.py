"""The object in JSON that a struct becomes, and the way back.

msgspec decodes and checks most types as they are declared. A part of a record is decoded as another
struct, of what its fields become, from which it is then made; and it is written by way of the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from types import GenericAlias, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import asdict, fields

from levelwind.assignors.protocol.canonical_json import loads, show
from levelwind.assignors.protocol.declared.marks import (
    NEVER_NULL,
    SHORTENED,
    WRITTEN,
    Among,
    Cases,
    Indexed,
    Mark,
    Renamed,
    Shape,
    Spread,
    Within,
    marks_of,
    without_none,
)
from levelwind.assignors.protocol.declared.numbers import exact, short
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from msgspec.structs import FieldInfo

    from levelwind.assignors.protocol.declared.marks import Conversion

Part = TypeVar("Part", bound=Struct)

# What the reasons of msgspec are made of.
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`")
_GOT = re.compile(r", got `[^`]*`$")
_NO_CHOICE = "Invalid enum value"
_STEP = re.compile(r"[^.\[\]]+")


def is_struct(hint: Any) -> bool:
    """Whether a type is a struct."""
    return isinstance(hint, type) and issubclass(hint, Struct)


def shape_of(hint: Any) -> Shape:
    """The shape in JSON of the values of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[0], hint.__metadata__)
    if hint is float:
        return Shape(float, write=exact)
    if is_struct(hint):
        form: JsonForm[Any] = form_of(hint)
        return Shape(form.wire, form.build, form.written)
    if origin in {Union, UnionType} and NoneType in arguments:
        (part,) = (argument for argument in arguments if argument is not NoneType)
        return _around(part, lambda wire: wire | None, _or_none)
    if origin is tuple:
        return _around(arguments[0], lambda wire: GenericAlias(tuple, (wire, ...)), _each)
    if origin is Mapping:
        return _around(
            arguments[1], lambda wire: GenericAlias(dict, (arguments[0], wire)), _each_value
        )
    return Shape(hint)


def _annotated(hint: Any, marks: tuple[Any, ...]) -> Shape:
    for mark in marks:
        if isinstance(mark, Shape):
            return mark
    inner = shape_of(hint)
    wire = inner.wire
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            wire = Annotated[wire, mark]
    return Shape(wire, inner.read, short if SHORTENED in marks else inner.write)


def _around(
    part: Any,
    wire: Callable[[Any], Any],
    around: Callable[[Conversion], Conversion],
) -> Shape:
    """The shape of a list, an object or an option of a type."""
    shape = shape_of(part)
    return Shape(
        wire(shape.wire),
        None if shape.read is None else around(shape.read),
        None if shape.write is None else around(shape.write),
    )


def _or_none(convert: Conversion) -> Conversion:
    return lambda value: None if value is None else convert(value)


def _each(convert: Conversion) -> Conversion:
    return lambda values: tuple([convert(value) for value in values])


def _each_value(convert: Conversion) -> Conversion:
    return lambda values: {name: convert(value) for name, value in values.items()}


class Column(NamedTuple):
    """A field of a part that is one field of JSON."""

    name: str
    wire_name: str
    shape: Shape
    within: str | None
    """The object that has it; None if that is the part's own."""
    default: Any
    """The value for a reader that finds none, or null; `NODEFAULT` if it must be there."""
    absent: Any
    """The value of a missing field as it is decoded; a field that has it is not written."""
    nullable: bool
    """Whether it may be null where it may be missing."""


def _column(field: FieldInfo, hint: Any) -> Column:
    renamed, within = marks_of(hint, Renamed), marks_of(hint, Within)
    factory = field.default_factory
    default = field.default if factory is NODEFAULT else factory()
    return Column(
        name=field.name,
        wire_name=renamed[0].name if renamed else field.name,
        shape=shape_of(hint),
        within=within[0].name if within else None,
        default=default,
        absent=_absent(default, hint),
        nullable=NEVER_NULL not in marks_of(hint, Mark),
    )


def _absent(default: Any, hint: Any) -> Any:
    if default is not NODEFAULT and WRITTEN in marks_of(hint, Mark):
        return UNSET
    return default if default is NODEFAULT or default == () else None


class JsonForm(Generic[Part]):
    """The object in JSON that a struct becomes."""

    def __init__(
        self, part_type: type[Part], elsewhere: Collection[str] = (), v: int | None = None
    ) -> None:
        """Arrange the fields of a struct.

        Args:
            part_type: the struct.
            elsewhere: names of fields that the object does not have.
            v: the version that the object names; None if it names none.
        """
        hints = get_type_hints(part_type, include_extras=True)
        declared = [f for f in fields(part_type) if f.name not in elsewhere]
        self.part_type = part_type
        self.hints = {field.name: hints[field.name] for field in declared}
        self.spreads = {
            name: spread for name, hint in self.hints.items() for spread in _spread(name, hint)
        }
        self._spread_shapes = {
            name: {part: shape_of(hint) for part, hint in spread.parts.items()}
            for name, spread in self.spreads.items()
        }
        self.columns = tuple(
            _column(field, self.hints[field.name])
            for field in declared
            if field.name not in self.spreads
        )
        self._elsewhere = [name for name in part_type.__struct_fields__ if name in elsewhere]
        self._v = {} if v is None else {"v": v}
        self._version = {name: Literal[value] for name, value in self._v.items()}
        self._check_part = getattr(part_type, "check", None)
        self._reads = [(c.name, c.shape.read) for c in self.columns if c.shape.read is not None]
        written = [(c.name, shape_of(without_none(self.hints[c.name]))) for c in self.columns]
        self._writes = [(name, shape.write) for name, shape in written if shape.write is not None]
        self._defaults = [
            (c.name, c.default)
            for c in self.columns
            if c.absent is UNSET or c.default not in (NODEFAULT, None)
        ]
        self._omitted = [
            (c.name, c.default) for c in self.columns if c.absent is None and c.default is not None
        ]
        self.dimensions = _dimensions(self.hints)
        self._lists = [
            (dimension, names, attrgetter(*names))
            for dimension, names in self.dimensions.items()
            if len(names) > 1
        ]
        self._indices = [
            (name, indexed)
            for name, hint in self.hints.items()
            for mark in marks_of(hint, Among)
            for indexed in self.dimensions[mark.dimension][:1]
        ]
        objects = dict.fromkeys(column.within for column in self.columns if column.within)
        self.objects = {
            within: _struct(within, [c for c in self.columns if c.within == within])
            for within in objects
        }
        self._objects = [
            (within, held, held.__struct_fields__) for within, held in self.objects.items()
        ]
        self.wire = _struct(
            part_type.__name__,
            [column for column in self.columns if column.within is None],
            self._version,
            self.objects,
            *(
                {name: shape.wire for name, shape in shapes.items()}
                for shapes in self._spread_shapes.values()
            ),
        )

    def some(self, *names: str) -> type[Any]:
        """A struct of some fields alone, for a reader to whom the others are of no interest."""
        return _struct(
            self.part_type.__name__,
            [column for column in self.columns if column.name in names],
            self._version,
        )

    def build(self, wire: msgspec.Struct, **given: object) -> Part:
        """The part of an object that was decoded.

        Args:
            wire: an instance of `wire`.
            given: fields that the object does not have.

        Raises:
            WireError: The fields do not fit together.
        """
        values = asdict(wire)
        for name in self._v:
            del values[name]
        for within in self.objects:
            values |= asdict(values.pop(within))
        for name, default in self._defaults:
            if values[name] is None or values[name] is UNSET:
                values[name] = default
        for name, read in self._reads:
            values[name] = _named(name, read, values[name])
        for name, shapes in self._spread_shapes.items():
            own = {
                part: _named(part, shape.read, values.pop(part)) for part, shape in shapes.items()
            }
            values[name] = _named(name, self.spreads[name].read, **own)
        values |= given
        part = self.part_type(**values)
        self._check(part)
        return part

    def written(self, part: Part) -> Struct:
        """The object of a part: an instance of `wire`, whose defaults are not written."""
        values = asdict(part)
        values |= self._v
        for name in self._elsewhere:
            del values[name]
        for name, default in self._omitted:
            if values[name] == default:
                values[name] = None
        for name, write in self._writes:
            if (value := values[name]) is not None:
                values[name] = write(value)
        for name, shapes in self._spread_shapes.items():
            own = self.spreads[name].write(values.pop(name))
            for each, shape in shapes.items():
                values[each] = shape.write(own[each]) if shape.write else own[each]
        for within, held, names in self._objects:
            values[within] = held(**{name: values.pop(name) for name in names})
        return self.wire(**values)

    def _check(self, part: Part) -> None:
        for dimension, names, get in self._lists:
            if len({len(items) for items in get(part) if items is not None}) > 1:
                named = zip(names, get(part), strict=True)
                lengths = ", ".join(f"{n} {len(items)}" for n, items in named if items is not None)
                raise WireError(f"lists by {dimension} differ in length: {lengths}")
        for name, indexed in self._indices:
            numbers = getattr(part, name)
            if numbers and max(numbers) >= len(getattr(part, indexed) or ()):
                raise WireError(f"{name}: an index that {indexed} does not have")
        if self._check_part is not None:
            self._check_part(part)


_FORMS: dict[type, JsonForm[Any]] = {}


def form_of(part_type: type[Part]) -> JsonForm[Part]:
    """The form of a struct that is a part of a record."""
    if part_type not in _FORMS:
        _FORMS[part_type] = JsonForm(part_type)
    return _FORMS[part_type]


def _named(name: str, read: Conversion | None, /, *value: Any, **values: Any) -> Any:
    """The value of a field; an error names the field."""
    try:
        return value[0] if read is None else read(*value, **values)
    except WireError as error:
        raise WireError(f"{name}: {error}") from None


def _spread(name: str, hint: Any) -> list[Spread]:
    return marks_of(hint, Spread) + [_case(name, cases) for cases in marks_of(hint, Cases)]


def _case(name: str, cases: Cases) -> Spread:
    forms: dict[str, JsonForm[Any]] = {
        kind: form_of(part_type) for kind, part_type in cases.kinds.items()
    }
    decoders = {kind: msgspec.json.Decoder(form.wire) for kind, form in forms.items()}

    def read(**values: Any) -> object:
        kind = values[cases.tag]
        return forms[kind].build(decoded(decoders[kind], values[name]))

    def write(part: object) -> dict[str, Any]:
        kind = cases.kind_of(part)
        return {cases.tag: kind, name: forms[kind].written(part)}

    return Spread({cases.tag: Literal[tuple(cases.kinds)], name: msgspec.Raw}, read, write)


def _dimensions(hints: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lists of each dimension."""
    dimensions: dict[str, list[str]] = {}
    for name, hint in hints.items():
        for mark in marks_of(hint, Indexed):
            dimensions.setdefault(mark.dimension, []).append(name)
    return dimensions


def _struct(
    name: str, columns: Iterable[Column], *further: Mapping[str, Any]
) -> type[msgspec.Struct]:
    """The struct of some columns, and of further fields that are named as in JSON.

    Its fields stand in the order of their names in JSON, in which a record is written, so that
    neither who writes it has to sort them nor who reads it has to look for the next one.
    """
    renamed: dict[str, str] = {}
    declared: list[Any] = []
    for column in columns:
        renamed[column.name] = column.wire_name
        if column.default is NODEFAULT:
            declared.append((column.name, column.shape.wire))
        elif column.nullable:
            declared.append((column.name, column.shape.wire | None, column.absent))
        else:
            declared.append((column.name, without_none(column.shape.wire), column.absent))
    for wire_name, hint in (item for hints in further for item in hints.items()):
        may_miss = NoneType in get_args(hint)
        declared.append((wire_name, without_none(hint), None) if may_miss else (wire_name, hint))
    declared.sort(key=lambda field: renamed.get(field[0], field[0]))
    return msgspec.defstruct(
        name, declared, rename=renamed, kw_only=True, frozen=True, omit_defaults=True
    )


def decoded(decoder: msgspec.json.Decoder[Part], raw: bytes | msgspec.Raw) -> Part:
    """The value of a decoder's type in JSON.

    Raises:
        WireError: It is no JSON, or not of the decoder's type.
    """
    try:
        return decoder.decode(str(raw, "utf-8"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return loads(raw, lambda text: _explained(decoder, text))


def _explained(decoder: msgspec.json.Decoder[Part], text: str) -> Part:
    """The value in a text that cannot be decoded: raises why."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise WireError(_reason(error, _document(text), "value")) from None


def _document(text: str) -> object:
    """The document of a text that is JSON; none if a number in it is out of every range."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        return ()


def converted(document: object, hint: Any, name: str) -> Any:
    """The value of a type in a document of some name that is no JSON any more.

    Raises:
        WireError: It is not of the type.
    """
    try:
        return msgspec.convert(document, hint)
    except msgspec.ValidationError as error:
        raise WireError(_reason(error, document, name)) from None


def _reason(error: msgspec.ValidationError, document: object, name: str) -> str:
    """The fault in a document of some name, its place, and the value there."""
    what, _, at = str(error).partition(" - at `")
    of_key, _, place = at.removesuffix("`").rpartition("$")
    if (missing := _MISSING.fullmatch(what)) is not None:
        return f"{name}{place}.{missing['field']}: missing"
    what = "expected another value" if what.startswith(_NO_CHOICE) else _GOT.sub("", what)
    value: Any = document
    try:
        for step in _STEP.findall(place):
            value = value[int(step) if isinstance(value, list) else step]
    except (KeyError, ValueError, TypeError):
        found = ""  # below a name that an object chose, which the library does not tell
    else:
        found = "" if of_key else f", got {show(value)}"
    return f"{name}{place}: {'a name: ' if of_key else ''}{what[0].lower()}{what[1:]}{found}"
