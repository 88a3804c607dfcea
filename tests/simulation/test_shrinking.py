"""A failure is told by its seed and the shortest list of faults, on a page."""

from levelwind_testing.simulation.faults import Fault
from levelwind_testing.simulation.mutants import TWO, no_wait, without_fresh_end
from levelwind_testing.simulation.shrinking import PAGE_LINES, report, shortest

CUT = Fault(at=30.0, kind="cut", target="a", seconds=70.0, amount=1.0)
OTHERS = [
    Fault(at=12.0, kind="request", target="g"),
    Fault(at=20.0, kind="compaction"),
    Fault(at=60.0, kind="other lag", target="g", amount=3.0),
]


def test_the_shortest_list_holds_the_faults_that_matter():
    with no_wait(), without_fresh_end():
        assert shortest(1, TWO, sorted([*OTHERS, CUT], key=lambda fault: fault.at)) == [CUT]


def test_the_transcript_names_the_seed_the_faults_and_what_happened_on_a_page():
    with no_wait(), without_fresh_end():
        lines = report(1, TWO, [*OTHERS, CUT]).splitlines()
    assert len(lines) <= PAGE_LINES
    assert lines[0].startswith("seed 1: ")
    assert [line for line in lines if "cut a for 70 s" in line]
    assert not [line for line in lines if "compaction" in line]
    assert any("member.evicted" in line for line in lines)
