"""The query in the session of the tests, with its news."""

from typing import Any

from pyspark.sql import SparkSession

from levelwind.streaming.spark import query
from levelwind.streaming.spark.batches.progress import Progress, QueryNews
from levelwind.streaming.spark.settings import PipelineSettings


class RunningQuery:
    """A running query and its news."""

    def __init__(self, spark: SparkSession, settings: PipelineSettings) -> None:
        self.news: list[QueryNews] = []
        self.set_aside: list[str] = []
        self.spark = spark
        self.query = query.start(spark, settings, self.news.append, self.set_aside.append)

    @property
    def batches(self) -> list[Progress]:
        return [news for news in self.news if isinstance(news, Progress)]

    @property
    def execution(self) -> Any:
        """Spark's plans of the last batch, as the JVM has them."""
        return self.query._jsq.streamingQuery().lastExecution()

    @property
    def executed_plan(self) -> str:
        """What Spark executed for the last batch, whole: the pipeline has it cut such texts."""
        length = "spark.sql.maxPlanStringLength"
        cut_at = self.spark.conf.get(length)
        self.spark.conf.set(length, 1_000_000)
        try:
            return str(self.execution.executedPlan().toString())
        finally:
            self.spark.conf.set(length, cut_at)

    def counted(self, what: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for batch in self.batches:
            for name, count in getattr(batch, what).items():
                total[name] = total.get(name, 0) + count
        return total

    @property
    def is_done(self) -> bool:
        """Whether the query has read all its input; a restarted one may find nothing left."""
        assert self.query.isActive, self.query.exception()
        return bool(self.query.status["message"] == "Waiting for data to arrive")
