"""The configuration: read once, checked as a whole, handed out in sections.

Of the sources the first wins: the options of the command line, the environment
(`LEVELWIND_CONTROL__MIN_GAIN=0.2`), the TOML file. A key that is not a setting ends the start with
the name of the nearest setting. Settings of the clients of Kafka and Spark pass through verbatim
under their own names (`[kafka]`, `[pipeline.kafka]`, `[pipeline.spark]`). The docstrings of the
settings are their reference: docs/configuration.md is generated from them.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.daemon.config.group_patterns import GroupModes, check_patterns, table_of
from levelwind.daemon.config.groups import GroupSection, check_strategies
from levelwind.daemon.config.http_section import HttpSection
from levelwind.daemon.config.java_client import java_security
from levelwind.daemon.config.listen import shown_address
from levelwind.daemon.config.secrets import with_files
from levelwind.daemon.control.settings import (
    ControlSettings,
    Count,
    PlanSettings,
    ScalingSettings,
)
from levelwind.daemon.durations import Seconds  # noqa: TC001 - the settings are validated by their annotations
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.observer.selection import Selection
from levelwind.daemon.observer.settings import ObserverSettings
from levelwind.daemon.polling.settings import CommitSettings
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind.daemon.wire.broker_addresses import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.assignors.protocol.records import Mode
    from levelwind.streaming.spark.settings import PipelineSettings


ENVIRONMENT = "LEVELWIND_"
FOR_SETUP = frozenset({"LEVELWIND_JAVA_HOME"})
"""Variables that the set-up of a machine reads, not the daemon."""

PASSED_THROUGH = re.compile(r"(kafka|pipeline\.kafka|pipeline\.spark)(\.|$)")
"""Tables whose keys are settings of third-party clients, dots included."""


def _as_text(table: object) -> object:
    """Write the numbers and booleans of a table as the clients expect them: as text."""
    if not isinstance(table, dict):
        return table
    return {
        key: str(value).lower()
        if isinstance(value, bool)
        else str(value)
        if isinstance(value, int | float)
        else value
        for key, value in table.items()
    }


ClientSettings = Annotated[dict[str, str], BeforeValidator(_as_text)]
"""Settings of third-party clients, passed through verbatim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSection:
    """The pipeline, and the rules of lag and skew."""

    run: Literal["child", "elsewhere"] = "child"
    """Where the pipeline runs: `child` (the daemon that leads starts it, and restarts it when it
    dies) or `elsewhere` (the daemon starts none, needs neither Java nor jars, and takes the
    pipeline's health from the record that it publishes)."""
    end_kind: Literal["stable", "high"] = "stable"
    """The log end that lag is measured against: `stable` (what a `read_committed` consumer can
    reach) or `high` (the high watermark)."""
    reset_policy: Literal["latest", "earliest"] = "earliest"
    """Where a group's readers begin in a partition without a commit, or with one beyond the log:
    `earliest` counts the whole log as lag, `latest` nothing. Clients tell nobody their
    `auto.offset.reset`."""
    skew_threshold: Annotated[float, Field(ge=1)] = 1.25
    """The skew rule counts while the largest time to drain of a member is at least this many times
    the best that a plan could reach; at least 1."""
    skew_floor_seconds: Seconds = 3.0
    """It does so while the two also differ by at least this many seconds."""
    skew_utilisation: Annotated[float, Field(gt=0)] = 0.85
    """The skew rule also counts while a member needs at least this share of its learned speed for
    what arrives, and a plan could lower that by 0.1."""
    skew_duration: Seconds = 2.0
    """Seconds of event time for which the skew rule must count without a break before the trigger
    is raised."""
    trigger_interval: Seconds = 0.55
    """Shortest seconds between the starts of two batches, while skew counts in a group, a plan is
    followed or much is committed; 0: a batch always begins when the last one ends. Then lag shows
    up to 0.3 s sooner, for more than twice the CPU."""
    calm_interval: Seconds = 2.5
    """Longest seconds between the starts of two batches otherwise. Skew is noticed as soon as with
    the shortest, since a pause ends within `skew_duration`. No more than `trigger_interval`: the
    time between two batches is fixed."""
    max_offsets_per_trigger: Annotated[int, Field(gt=0, lt=2**63)] = 250_000
    """The most records of one batch."""
    parallelism: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Tasks that work at the same time, and partitions of the state. A checkpoint of another number
    is set aside, and the state rebuilt. 0: the checkpoint's number; for a new state one, which
    costs least, or two on a Spark cluster and where 5,000 records a second are committed in the
    mean of the last day, or since the first record of that day."""
    checkpoint: str = ""
    """URI of the checkpoint's directory in any file system that Spark knows, as in
    `hdfs://host/levelwind` or `s3a://bucket/levelwind`; empty: `checkpoint` in `state_dir`. On a
    Spark cluster every executor must reach it."""
    driver_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port at which the pipeline's driver tells executors on other machines the end offsets of
    their batch; 0: any free one."""
    restarts: Count = 5
    """Number of times that the pipeline may die within `restart_window`; at the next death the
    daemon gives up with exit code 5."""
    restart_window: Seconds = 600.0
    """The window of `restarts`, in seconds."""
    answer_timeout: Annotated[Seconds, Field(ge=10)] = 30.0
    """Seconds without an answer of Spark's JVM, or in which its query does nothing although the
    brokers have input for it, after which the pipeline counts as dead and is started again; at
    least 10. An end of the JVM is noticed at once, and a start has three minutes."""
    progress_timeout: Annotated[Seconds, Field(ge=10)] = 300.0
    """Seconds without progress after which the pipeline counts as dead whatever the brokers do; at
    least 10. A batch may take any time while the JVM or its Python workers use the CPU."""
    kafka: ClientSettings = field(default_factory=dict)
    """Settings of the Java client that Spark uses. What follows from `[kafka]` need not be given:
    the protocol, PLAIN and SCRAM, and certificates in PEM files. What is given here wins."""
    spark: ClientSettings = field(default_factory=dict)
    """Settings of Spark. They win; class paths of a local Spark come after the pipeline's own
    jars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSection:
    """The log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe level that is written: `debug`, `info`, `warning` or `error`."""
    format: Literal["auto", "json", "console"] = "auto"
    """`json` (one object a line), `console`, or `auto`: `json` where the output is no terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection:
    """Metrics for Prometheus."""

    listen: str = ""
    """`ADDRESS:PORT` of the metrics endpoint, as in `127.0.0.1:9464`, or `:9464` for every
    address of IPv4 and IPv6; empty: no endpoint. Port 0 takes a free port, which is logged."""
    partitions: bool = False
    """Whether the lag of groups has one series a partition, not only one a topic."""
    cluster_name: str = ""
    """The label `cluster_name` of the metrics whose names kafka-lag-exporter's dashboards know."""


class Settings(BaseModel):
    """All settings."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        # Holds for the sections, too. The pipeline gets its settings as JSON, which has neither.
        allow_inf_nan=False,
    )

    bootstrap: Annotated[str, Field(pattern=r"\S")] = "127.0.0.1:9092"
    """The Kafka cluster: `HOST:PORT`, with commas between several brokers."""
    prefix: str = "levelwind."
    """Beginning of the names of levelwind's topics. Installations with prefixes of their own can
    share a cluster."""
    state_dir: Path = Path(".levelwind")
    """Directory of the pipeline's checkpoint. Without its content the state is rebuilt from the
    topics."""
    kafka: ClientSettings = {}
    """Settings of librdkafka, for the daemon's clients. The daemon overrides those that its
    correctness depends on. A name that ends in `_file`, as `sasl.password_file`, gives the file
    that holds the value."""
    observer: ObserverSettings = ObserverSettings()
    """Observation of the cluster."""
    commits: CommitSettings = CommitSettings()
    """Where commits and members of groups come from."""
    pipeline: PipelineSection = PipelineSection()
    """The pipeline, and the rules of lag and skew."""
    control: ControlSettings = ControlSettings()
    """Timing and limits of plans."""
    scaling: ScalingSettings = ScalingSettings()
    """The members that groups want, for autoscalers of consumers."""
    groups: dict[str, GroupSection] = {}
    """Settings of single groups, by name or by pattern."""
    proxy: ProxySettings = ProxySettings()
    """The leader proxy."""
    topic: TopicSettings = TopicSettings()
    """levelwind's own topics."""
    timers: Timers = Timers()
    """The timers of the hand-over."""
    log: LogSection = LogSection()
    """The log."""
    metrics: MetricsSection = MetricsSection()
    """Metrics for Prometheus."""
    http: HttpSection = HttpSection()
    """The HTTP server."""

    def client(self) -> dict[str, Any]:
        """Return the configuration that every Kafka client of the daemon starts from.

        Raises:
            ConfigurationError: a file that holds a value cannot be read.
        """
        return {**with_files(self.kafka, "kafka"), "bootstrap.servers": self.bootstrap}

    def java_client(self) -> dict[str, str]:
        """Return the settings of the Java client that Spark uses, with what follows from `kafka`.

        Raises:
            ConfigurationError: a file cannot be read, or a setting has no counterpart.
        """
        given = with_files(self.pipeline.kafka, "pipeline.kafka")
        return java_security(with_files(self.kafka, "kafka"), given)

    def pipeline_settings(self, jars: tuple[Path, ...]) -> PipelineSettings:
        """Return the settings of the pipeline's process."""
        from levelwind.streaming.rules.skew import SkewRule  # noqa: PLC0415 - it imports NumPy
        from levelwind.streaming.spark.settings import PipelineSettings  # noqa: PLC0415 - it imports NumPy

        section = self.pipeline
        return PipelineSettings(
            # Spark's client refuses an address without a port.
            bootstrap=",".join(shown_address(*each) for each in addresses(self.bootstrap)),
            checkpoint=section.checkpoint or self.state_dir / "checkpoint",
            parallelism=section.parallelism,
            driver_port=section.driver_port,
            jars=jars,
            prefix=self.prefix,
            commits_polled=self.commits.polled,
            end_kind=section.end_kind,
            reset_policy=section.reset_policy,
            group_reset_policies={
                name: group.reset_policy
                for name, group in self.groups.items()
                if group.reset_policy is not None
            },
            skew=SkewRule(
                threshold=section.skew_threshold,
                floor_seconds=section.skew_floor_seconds,
                utilisation=section.skew_utilisation,
                duration_ms=round(section.skew_duration * 1000),
            ),
            trigger_interval=round(section.trigger_interval * 1000),
            calm_interval=round(section.calm_interval * 1000),
            max_offsets_per_trigger=section.max_offsets_per_trigger,
            kafka=self.java_client(),
            spark=with_files(section.spark, "pipeline.spark"),
        )

    @property
    def topics(self) -> Topics:
        """The names of levelwind's topics."""
        return Topics(self.prefix)

    @property
    def commits_topic(self) -> str:
        """The topic that the pipeline reads commits from."""
        return self.topics.commits if self.commits.polled else OFFSETS_TOPIC

    def section_of(self, group: str) -> GroupSection:
        """Return the settings of a group: its own table, or that of the longest pattern."""
        name = table_of(self.groups, group)
        return GroupSection() if name is None else self.groups[name]

    def planning_of(self, group: str) -> PlanSettings:
        """Return the strategy of a group, with its options."""
        section = self.section_of(group)
        return PlanSettings(
            strategy=section.strategy or self.control.strategy,
            options=section.options(),
            record_bytes=section.sizes(),
            approval=section.approval,
            begins_new=section.new_partitions == "beginning",
        )

    def scaling_of(self, group: str) -> ScalingSettings:
        """Return the scaling settings of a group."""
        return self.section_of(group).scaling.over(self.scaling)

    def watched_modes(self) -> Mapping[str, Mode]:
        """Return the mode of each group that is not managed, by its name."""
        return GroupModes(self.groups)

    def proxied_groups(self) -> tuple[str, ...]:
        """Return the groups that the daemon's leader proxy leads."""
        return tuple(name for name, mode in self.watched_modes().items() if mode == "proxy")


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings.

    Args:
        path: the TOML file; None for none.
        overrides: a tree of settings that win over all others (the command line's options).

    Raises:
        ConfigurationError: the file cannot be read, a key is unknown or a value does not fit; the
            text says which and why.
    """
    tree: dict[str, Any] = {}
    for origin, layer in layers(path, overrides or {}):
        for key, nearest in unknown_keys(layer, Settings):
            hint = f"; did you mean {nearest}?" if nearest else ""
            raise ConfigurationError(f"{origin}: {key} is not a setting{hint}")
        tree = _merged(tree, layer)
    try:
        settings = Settings(**tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        # A client's setting may be a secret: neither it nor a table around it is repeated.
        secret = key == "pipeline" or PASSED_THROUGH.match(key)
        shown = "" if secret else f" (it is {first['input']!r})"
        raise ConfigurationError(f"{key}: {first['msg']}{shown}") from None
    for name, scaling in (
        ("scaling", settings.scaling),
        *((f"groups.{group}.scaling", settings.scaling_of(group)) for group in settings.groups),
    ):
        if scaling.max_members is not None and scaling.max_members < scaling.min_members:
            raise ConfigurationError(
                f"{name}: max_members ({scaling.max_members}) is below min_members"
                f" ({scaling.min_members})"
            )
    if not addresses(settings.bootstrap):
        raise ConfigurationError(f"bootstrap: {settings.bootstrap!r} names no broker")
    Selection.of(settings.observer.include, settings.observer.exclude)
    check_patterns(settings.groups)
    planned = {group: settings.planning_of(group) for group in settings.groups}
    if planned or settings.control.strategy != ControlSettings().strategy:
        check_strategies(settings.control.strategy, planned)
    return settings


def layers(
    path: Path | None, overrides: Mapping[str, Any]
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the sources of settings with their trees, the one that wins last."""
    sources = (
        (str(path), _file(path)),
        ("environment", _environment()),
        ("command line", overrides),
    )
    return tuple((origin, _from_texts(tree, Settings)) for origin, tree in sources)


def unknown_keys(tree: object, shape: Any, path: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield each key of a tree that is not a setting, with the nearest key that is.

    Args:
        tree: settings as read from a source; a value that is no table has no keys, and is refused
            by its type when all sources are merged.
        shape: the settings class or dataclass that the tree is for.
        path: the path of the tree, with a dot at its end.
    """
    if not isinstance(tree, dict):
        return
    known = _fields(shape)
    for key, value in tree.items():
        if key not in known:
            nearest = get_close_matches(key, known, n=1)
            yield path + key, path + nearest[0] if nearest else None
        else:
            inner = known[key]
            if _is_section(inner):
                yield from unknown_keys(value, inner, f"{path}{key}.")
            elif isinstance(value, dict) and (args := get_args(inner)) and _is_section(args[-1]):
                # A table of sections, one for each name.
                for name, section in value.items():
                    yield from unknown_keys(section, args[-1], f"{path}{key}.{name}.")


def _from_texts(tree: Any, shape: Any) -> Any:
    """Return a tree of settings in which no list and no table is a text.

    The environment and the command line give every value as a text.
    """
    if not isinstance(tree, dict):
        return tree
    known = _fields(shape)
    return {key: _from_text(value, known.get(key)) for key, value in tree.items()}


def _from_text(value: Any, shape: Any) -> Any:
    args = get_args(shape)
    kinds = {get_origin(each) for each in (shape, *args)}
    if isinstance(value, str):
        if _is_section(shape) or kinds & {dict, Mapping}:
            table = _from_json(value, dict)
            value = value if table is None else table
        elif kinds & {list, tuple}:
            entries = _from_json(value, list)
            if entries is not None and all(isinstance(entry, str) for entry in entries):
                return entries
            return [entry.strip() for entry in value.split(",") if entry.strip()]
    if _is_section(shape):
        return _from_texts(value, shape)
    if isinstance(value, dict) and args and _is_section(args[-1]):
        return {name: _from_text(section, args[-1]) for name, section in value.items()}
    return value


def _from_json(text: str, kind: type) -> Any:
    """Return what a text of JSON holds; None if it is none, or holds something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None


def _is_section(shape: Any) -> bool:
    return isinstance(shape, type) and is_dataclass(shape)


def _fields(shape: Any) -> dict[str, Any]:
    names = (
        shape.model_fields if hasattr(shape, "model_fields") else [f.name for f in fields(shape)]
    )
    hints = get_type_hints(shape)
    return {name: hints[name] for name in names}


def _file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no TOML or UTF-8, huge numbers, deep nesting
        raise ConfigurationError(f"{path}: is not TOML: {error}") from error


def _environment() -> dict[str, Any]:
    """Read the LEVELWIND_ variables.

    A variable that begins with no setting stays in, to be refused by name.

    Raises:
        ConfigurationError: the variable of a whole table is no JSON, or one is no UTF-8, as no name
            of a topic and no record is.
    """
    named = [name for name in os.environ if name.upper().startswith(ENVIRONMENT)]
    if not named:
        return {}
    for name in set(named) - FOR_SETUP:
        try:
            os.environ[name].encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"environment: {name} is no UTF-8") from None
    # Here, because the library takes as long to import as all other modules of a command together.
    from pydantic_settings import (  # noqa: PLC0415 - see the line above
        BaseSettings,
        EnvSettingsSource,
        SettingsConfigDict,
        SettingsError,
    )

    class Variables(Settings, BaseSettings):
        model_config = SettingsConfigDict(env_prefix=ENVIRONMENT, env_nested_delimiter="__")

    try:
        tree = EnvSettingsSource(Variables)()
    except (SettingsError, RecursionError) as error:
        # The text names the setting alone: the value may be a secret.
        raise ConfigurationError(
            f"environment: {error}: the variable of a table is JSON, and that of a setting in it"
            f" is {ENVIRONMENT}TABLE__SETTING"
        ) from None
    for name in os.environ:
        first = name.removeprefix(ENVIRONMENT).partition("__")[0].lower()
        if (
            name.startswith(ENVIRONMENT)
            and name not in FOR_SETUP
            and first not in Settings.model_fields
        ):
            tree[first] = os.environ[name]
    return tree


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(under)
    for key, value in over.items():
        old = both.get(key)
        both[key] = (
            _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return both
