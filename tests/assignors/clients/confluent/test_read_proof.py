"""When a reader has proved that it read everything."""

from levelwind.assignors.clients.confluent.reading.read_proof import LONGEST_WAIT, ReadProof


def test_an_empty_log_is_read_at_once():
    proof = ReadProof(7)
    assert proof.answered(1.0, 7, 7) == 1.0


def test_a_question_is_confirmed_once_everything_below_its_answer_was_read():
    proof = ReadProof(0)
    assert proof.answered(1.0, 0, 3) is None
    assert proof.read(1) is None
    assert proof.read(2) is None
    assert proof.read(3) == 1.0
    assert proof.read(4) is None


def test_a_transaction_marker_is_passed_by_the_end_of_the_partition():
    proof = ReadProof(0)
    assert proof.read(1) is None  # the record; its marker stands at offset 1
    assert proof.answered(1.0, 1, 2) is None
    assert proof.read(2) == 1.0  # the end of the partition


def test_the_newest_of_several_confirmed_questions_counts():
    proof = ReadProof(0)
    for asked_at, end in ((1.0, 2), (2.0, 4), (3.0, 9)):
        assert proof.answered(asked_at, 0, end) is None
    assert proof.read(5) == 2.0
    assert proof.read(9) == 3.0


def test_a_log_that_ends_before_what_was_read_proves_nothing():
    proof = ReadProof(0)
    proof.read(500)
    assert proof.answered(1.0, 500, 3) is None
    assert proof.read(500) is None
    assert proof.read(3) is None  # the reader found the beginning of the new log
    assert proof.answered(2.0, 3, 3) == 2.0


def test_a_reader_that_overtakes_the_answer_is_confirmed_by_it():
    proof = ReadProof(0)
    proof.read(10)
    assert proof.answered(1.0, 4, 8) == 1.0


def test_answers_do_not_pile_up_while_the_reader_stands_still():
    proof = ReadProof(0)
    for number in range(10 * LONGEST_WAIT):
        assert proof.answered(float(number), 0, 5 + number) is None
    assert len(proof._waiting) == LONGEST_WAIT
    assert proof.read(5) == 0.0
