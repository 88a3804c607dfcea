import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from levelwind.streaming.decoding.ingest import PackedRows
from levelwind.streaming.messages import rows
from levelwind.streaming.spark import schemas

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
def test_the_rows_and_the_schema_of_a_table_agree(row: type, schema: StructType) -> None:
    columns = [name for name in row.__annotations__ if name not in {"buckets", "followed"}]
    assert columns == schema.fieldNames()
    for field in schema:
        annotation = row.__annotations__[field.name]
        name = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        # `PackedRows` has columns: lists of what a row has.
        types, nullable = TYPES[name.removeprefix("list[").removesuffix("]")]
        assert isinstance(field.dataType, types), field.name
        assert field.nullable is nullable, field.name
