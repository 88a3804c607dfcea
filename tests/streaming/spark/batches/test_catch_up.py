from levelwind.streaming.spark.batches.catch_up import Behind, CatchUp, CaughtUp


def test_a_query_that_keeps_pace_reports_once_that_it_has_caught_up() -> None:
    progress, news = CatchUp(began_at=0.0).add_batch(rows=10, behind=0, seconds=1.0, now=5.0)
    assert news == CaughtUp(seconds=5.0, rows=10)
    progress, news = progress.add_batch(rows=7, behind=0, seconds=1.0, now=6.0)
    assert news is None


def test_the_share_speed_and_time_left_are_those_since_the_first_batch() -> None:
    progress, news = CatchUp(began_at=0.0).add_batch(rows=100, behind=900, seconds=4.0, now=10.0)
    assert news == Behind(share=0.1, seconds_left=36.0, behind=900, rows_per_second=25.0)
    progress, news = progress.add_batch(rows=200, behind=700, seconds=1.0, now=12.0)
    assert news == Behind(share=0.3, seconds_left=7.0, behind=700, rows_per_second=100.0)
    progress, news = progress.add_batch(rows=700, behind=0, seconds=3.0, now=15.0)
    assert news == CaughtUp(seconds=15.0, rows=1000)


def test_input_that_grows_faster_than_it_is_read_has_no_time_left() -> None:
    progress, _ = CatchUp(began_at=0.0).add_batch(rows=100, behind=900, seconds=1.0, now=1.0)
    _, news = progress.add_batch(rows=100, behind=1000, seconds=1.0, now=2.0)
    assert isinstance(news, Behind)
    assert news.seconds_left is None
    assert news.rows_per_second == 100.0


def test_a_later_catching_up_is_counted_by_itself() -> None:
    progress, _ = CatchUp(began_at=0.0).add_batch(rows=1000, behind=0, seconds=1.0, now=1.0)
    progress, news = progress.add_batch(rows=100, behind=300, seconds=2.0, now=102.0)
    assert news == Behind(share=0.25, seconds_left=6.0, behind=300, rows_per_second=50.0)
    _, news = progress.add_batch(rows=300, behind=0, seconds=6.0, now=108.0)
    assert news == CaughtUp(seconds=8.0, rows=400)


def test_a_batch_planned_before_a_restart_does_not_report_that_all_is_read() -> None:
    progress, news = CatchUp(began_at=0.0).add_batch(rows=50, behind=None, seconds=1.0, now=4.0)
    assert news is None
    progress, news = progress.add_batch(rows=50, behind=300, seconds=1.0, now=5.0)
    assert news == Behind(share=0.25, seconds_left=6.0, behind=300, rows_per_second=50.0)


def test_a_query_that_finds_nothing_to_read_has_caught_up_once() -> None:
    progress, news = CatchUp(began_at=2.0).finish(5.0)
    assert news == CaughtUp(seconds=3.0, rows=0)
    assert progress.finish(6.0) == (progress, None)
    progress, news = progress.add_batch(rows=7, behind=3, seconds=1.0, now=8.0)
    assert isinstance(news, Behind)


def test_a_batch_planned_before_a_restart_and_nothing_after_it_report_that_all_is_read() -> None:
    progress, _ = CatchUp(began_at=0.0).add_batch(rows=50, behind=None, seconds=1.0, now=4.0)
    _, news = progress.finish(14.0)
    assert news == CaughtUp(seconds=14.0, rows=50)
