"""What the shells of all clients have in common."""

from __future__ import annotations

from types import new_class
from typing import Any, ClassVar, TypeVar, cast

from levelwind.assignors.clients.classic.classic_assignor import ClassicAssignor
from levelwind.assignors.clients.classic.cluster_view import ClusterView

Assignor = TypeVar("Assignor", bound=ClassicAssignor)


class ClientShell(ClassicAssignor):
    """An assignor that is told of changes of its client's metadata."""

    replicas_name: ClassVar[str]
    """Attribute of the client's partitions that has the brokers of all replicas."""
    broker_id_name: ClassVar[str]
    """Attribute of the client's brokers that has their id."""
    _watched: Any = None
    """Metadata whose changes the assignor is told of."""

    def _watch(self, cluster: Any) -> ClusterView:
        """Return the view of the client's metadata, and be told when it changes."""
        if cluster is not self._watched:
            cluster.add_listener(self._on_metadata)
            self._watched = cluster
        return self._view_of(cluster)

    def _on_metadata(self, cluster: Any) -> None:
        self.metadata_changed(self._view_of(cluster))

    def _view_of(self, cluster: Any) -> ClusterView:
        """Partitions and racks in the client's metadata."""
        return ClusterView.of_replicas(
            {
                topic: {
                    number: getattr(one, self.replicas_name) for number, one in by_number.items()
                }
                for topic, by_number in cluster._partitions.items()  # noqa: SLF001 - no public method has all replicas
            },
            {getattr(broker, self.broker_id_name): broker.rack for broker in cluster.brokers()},
        )


def shell_class(assignor: type[Assignor], bases: tuple[type, ...], module: str) -> type[Assignor]:
    """Make the class of an assignor for a client, which bears the assignor's name.

    Args:
        assignor: the assignor.
        bases: the bases of the new class, the assignor among them.
        module: the module that offers the class.
    """
    made = new_class(
        assignor.__name__,
        bases,
        exec_body=lambda body: body.update(__doc__=assignor.__doc__, __module__=module),
    )
    return cast("type[Assignor]", made)
