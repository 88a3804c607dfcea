"""No import circle of files; imports for type checking and inside functions count too."""

from graphlib import CycleError, TopologicalSorter

import pytest

from levelwind_testing.source_tree import imports, source_files


@pytest.mark.slow
def test_no_import_circle_of_files():
    graph = {module: imports(module) for module in source_files()}
    assert len(graph) > 200
    assert sum(map(len, graph.values())) > 500
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
    else:
        circle = ""
    assert circle == ""
