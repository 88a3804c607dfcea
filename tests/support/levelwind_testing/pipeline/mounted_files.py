"""A file system of Hadoop's in which a directory of this machine has no path: viewfs."""

from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession


def mount_settings(directory: Path, name: str) -> dict[str, str]:
    """The settings of Spark's by which `viewfs://NAME/c` is a directory."""
    return {f"spark.hadoop.fs.viewfs.mounttable.{name}.link./c": directory.absolute().as_uri()}


def mount(spark: SparkSession, directory: Path) -> str:
    """Make a directory known to a session; return its URI."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"m{uuid4().hex[:8]}"
    hadoop = spark._jsc.hadoopConfiguration()
    for key, value in mount_settings(directory, name).items():
        hadoop.set(key.removeprefix("spark.hadoop."), value)
    return f"viewfs://{name}/c"
