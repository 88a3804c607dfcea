"""A record by its declaration: its key, and its value as canonical JSON.

Written JSON has sorted keys, no white space, UTF-8 and no NaN. Reading returns exactly what the
declaration allows, or raises `WireError`: a bool is no integer, an integer fits 64 bits, a text can
be written again, and input that is too deep is only refused. Unknown fields are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints

import msgspec

from levelwind.assignors.protocol.declared.fields import Key, Name, Whole
from levelwind.assignors.protocol.declared.json_form import JsonForm, converted, decoded, form_of
from levelwind.assignors.protocol.partition_ranges import WireError


def _key_of(word: str | None, names: tuple[str, ...]) -> Callable[[Any], Key]:
    """Return the getter of a record's key."""
    if not names:
        return lambda _: () if word is None else (word,)
    return attrgetter(*names) if word is None else attrgetter("WORD", *names)


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the records: structs with the fields of the key and of the value."""

    KIND: ClassVar[str]
    """Name of the kind of record, and of its schema."""
    V: ClassVar[int] = 1
    """Version of the value's shape."""
    WORD: ClassVar[str | None]
    """First part of the key, the kind unless declared; None if the fields alone make the key."""
    KEY_FIELDS: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are the other parts of the key."""
    KEY_IN_VALUE: ClassVar[bool] = False
    """Whether the value has the fields of the key, too."""
    _key_of: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        """Make the way to the key once: every reader of a log asks for it, and more than once."""
        if not hasattr(cls, "WORD"):
            cls.WORD = cls.KIND
        cls._key_of = staticmethod(_key_of(cls.WORD, cls.KEY_FIELDS))

    @property
    def key(self) -> Key:
        """The record's key."""
        key: Key = self._key_of(self)
        return key

    @classmethod
    def of_key(cls, key: Key) -> Mapping[str, object]:
        """The fields that stand in the key alone."""
        return {} if cls.KEY_IN_VALUE else dict(zip(cls.KEY_FIELDS, key[1:], strict=True))

    def value(self) -> dict[str, Any]:
        """The value as a document."""
        return as_document(self)


Record = TypeVar("Record", bound=Declared)
_OF_ANY_KEY = (Name, Whole, Key)
"""Types whose bounds every key is held to."""


class Declaration(Generic[Record]):
    """Reading and writing of the records of a class."""

    def __init__(self, record_type: type[Record]) -> None:
        """Derive it from the fields of the class."""
        in_key = () if record_type.KEY_IN_VALUE else record_type.KEY_FIELDS
        self.form = JsonForm(record_type, elsewhere=in_key, v=record_type.V)
        self._record_type = record_type
        self._decoder = msgspec.json.Decoder(self.form.wire)
        hints = get_type_hints(record_type, include_extras=True)
        self._bounded = [(name, hints[name]) for name in in_key if hints[name] not in _OF_ANY_KEY]

    def read(self, key: Key, raw: bytes) -> Record:
        """The record of a key and the bytes of a value; raises `WireError` if it is none."""
        in_key = self._record_type.of_key(key)
        for name, bounded in self._bounded:
            converted(in_key[name], bounded, f"key.{name}")
        record = self.form.build(decoded(self._decoder, raw), **in_key)
        if self._record_type.KEY_IN_VALUE and record.key != key:
            raise WireError(f"{', '.join(record.KEY_FIELDS)} are not those of the key")
        return record


_DECLARATIONS: dict[type[Declared], Declaration[Any]] = {}


def declaration_of(record_type: type[Record]) -> Declaration[Record]:
    """The declaration of a class of records."""
    if record_type not in _DECLARATIONS:
        _DECLARATIONS[record_type] = Declaration(record_type)
    return _DECLARATIONS[record_type]


def written(part: msgspec.Struct) -> msgspec.Struct:
    """The object of a record's value, or of a part of one, as `canonical` takes it."""
    if isinstance(part, Declared):
        return declaration_of(type(part)).form.written(part)
    return form_of(type(part)).written(part)


def as_document(part: msgspec.Struct) -> dict[str, Any]:
    """The object of a record's value, or of a part of one, as a reader of its JSON gets it."""
    return cast("dict[str, Any]", msgspec.json.decode(canonical(written(part))))


def _plain(value: object) -> object:
    """The JSON value for one of a type that JSON does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"a value of type {type(value).__name__}")


# Fields are in their order already: a struct of `json_form` has them so.
_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_plain).encode


def canonical(document: object) -> bytes:
    """The bytes of a document; raises `WireError` if JSON cannot express it."""
    try:
        return _encode(document)
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise WireError(f"cannot be written: {error}") from error
