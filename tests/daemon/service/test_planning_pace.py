"""The pace of planning, learned from steps of known lengths."""

from levelwind.daemon.service.planning_pace import SLICE_SECONDS, PlanningPace


def paced(*steps):
    pace = PlanningPace(0.5)
    for plans, seconds in steps:
        pace.planned(plans, seconds)
    return pace


def test_a_slice_holds_as_many_plans_as_the_last_ones_let_expect():
    each = 0.005
    plans = paced(*[(10, 10 * each)] * 30).budget.plans
    assert abs(plans - SLICE_SECONDS / each) <= 1


def test_a_plan_longer_than_a_slice_is_made_alone():
    assert paced(*[(1, 3.0)] * 30).budget.plans == 1


def test_a_step_without_a_plan_says_nothing_about_the_pace():
    assert paced((0, 9.0)).budget == paced().budget


def test_an_outage_while_publishing_is_forgotten_soon():
    assert paced((1, 600.0), *[(1, 0.01)] * 12).budget.plans > 5


def test_the_pause_between_ticks_is_learned():
    pace = PlanningPace(0.5)
    for tick in range(40):
        pace.ticked(tick * 0.8)
    assert abs(pace.budget.every - 0.8) < 0.01
