import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from streaming.decoding.ingest import PackedRows
from streaming.messages import rows
from streaming.spark import schemas

TYPES = {
    "str": (StringType, False),
    "int": ((IntegerType, LongType), False),
    "bytes": (BinaryType, False),
    "str | None": (StringType, True),
    "bytes | None": (BinaryType, True),
}


@pytest.mark.parametrize(
    ("row", "schema"),
    [(PackedRows, schemas.PACKED), (rows.Row, schemas.ROWS), (rows.SinkRow, schemas.SINK)],
)
def test_a_tables_row_and_schema_say_the_same(row: type, schema: StructType) -> None:
    assert list(row.__annotations__) == schema.fieldNames()
    for field in schema:
        annotation = row.__annotations__[field.name]
        said = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        # What the intake makes are columns: a list of what a row has.
        types, nullable = TYPES[said.removeprefix("list[").removesuffix("]")]
        assert isinstance(field.dataType, types), field.name
        assert field.nullable is nullable, field.name
