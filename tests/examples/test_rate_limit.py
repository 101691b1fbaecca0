"""The example of models that share a resource."""

from examples.rate_limit.race import race


def test_the_model_with_priority_1_executes_twice_as_often_as_the_one_with_2():
    counts = race(90)
    assert abs(counts["interactive"] - 60) <= 4, counts
    assert abs(counts["background"] - 30) <= 4, counts
