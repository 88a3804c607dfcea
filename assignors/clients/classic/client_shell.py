"""What the shells of all clients have in common."""

from __future__ import annotations

from types import new_class
from typing import TYPE_CHECKING, Any, TypeVar, cast

from levelwind.assignors.clients.classic.classic_assignor import ClassicAssignor

if TYPE_CHECKING:
    from levelwind.assignors.clients.classic.cluster_view import ClusterView

Assignor = TypeVar("Assignor", bound=ClassicAssignor)


class ClientShell(ClassicAssignor):
    """An assignor that is told of changes of its client's metadata."""

    _watched: Any = None
    """Metadata whose changes the assignor is told of."""

    @staticmethod
    def view_of(cluster: Any) -> ClusterView:
        """Return the partitions and racks in the client's metadata."""
        raise NotImplementedError

    def _watch(self, cluster: Any) -> ClusterView:
        """Return the view of the client's metadata, and be told when it changes."""
        if cluster is not self._watched:
            cluster.add_listener(self._on_metadata)
            self._watched = cluster
        return self.view_of(cluster)

    def _on_metadata(self, cluster: Any) -> None:
        self.metadata_changed(self.view_of(cluster))


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
