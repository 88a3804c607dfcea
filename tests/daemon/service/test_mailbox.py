import threading

from levelwind.daemon.service.mailbox import Mailbox


def test_a_newer_state_replaces_the_unread_older_one_and_keeps_its_place():
    mailbox = Mailbox()
    mailbox.put("a", 1)
    mailbox.put("b", 2)
    mailbox.put("a", 3)
    assert mailbox.take(0) == [3, 2]
    assert mailbox.take(0) == []


def test_a_mark_never_overtakes_a_record_that_was_posted_before_it():
    mailbox = Mailbox()
    mailbox.put("mark", "all that stood in the log at 1 has been handled", last=True)
    mailbox.put("announcement", "written at 2")
    mailbox.put("mark", "all that stood in the log at 3 has been handled", last=True)
    # In the older mark's place the newer one would be handled first: a member whose announcement
    # waits behind it would count as silent up to 3.
    assert mailbox.take(0) == ["written at 2", "all that stood in the log at 3 has been handled"]


def test_a_writer_waits_while_it_is_full_and_goes_on_when_it_is_read():
    mailbox = Mailbox(capacity=1)
    mailbox.put("a", 1)
    writer = threading.Thread(target=mailbox.put, args=("b", 2), daemon=True)
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    mailbox.put("a", 3)  # a known key never waits
    assert mailbox.take(0) == [3]
    writer.join(5)
    assert mailbox.take(1) == [2]


def test_closing_lets_a_waiting_writer_and_reader_go():
    mailbox = Mailbox(capacity=1)
    mailbox.put("a", 1)
    writer = threading.Thread(target=mailbox.put, args=("b", 2), daemon=True)
    writer.start()
    mailbox.close()
    writer.join(5)
    assert not writer.is_alive()
    assert mailbox.take(0) == [1]
    assert mailbox.take(60) == []


def test_the_first_event_wakes_a_waiting_reader_and_later_ones_are_kept_for_its_next_look():
    mailbox = Mailbox()
    taken = []
    reader = threading.Thread(target=lambda: taken.extend(mailbox.take(60)), daemon=True)
    reader.start()
    reader.join(0.05)
    assert reader.is_alive()
    mailbox.put("a", 1)
    mailbox.put("b", 2)
    reader.join(30)
    assert not reader.is_alive()
    assert taken + mailbox.take(0) == [1, 2]
