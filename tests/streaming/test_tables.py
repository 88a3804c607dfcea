import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from streaming import tables

TYPES = {
    "str": (StringType, False),
    "int": ((IntegerType, LongType), False),
    "bytes": (BinaryType, False),
    "str | None": (StringType, True),
    "bytes | None": (BinaryType, True),
}


@pytest.mark.parametrize(
    ("row", "schema"),
    [(tables.PackedRow, tables.PACKED), (tables.Row, tables.ROWS), (tables.SinkRow, tables.SINK)],
)
def test_a_tables_row_and_schema_say_the_same(row: type, schema: StructType) -> None:
    assert list(row.__annotations__) == schema.fieldNames()
    for field in schema:
        annotation = row.__annotations__[field.name]
        types, nullable = TYPES[annotation if isinstance(annotation, str) else annotation.__forward_arg__]
        assert isinstance(field.dataType, types), field.name
        assert field.nullable is nullable, field.name
