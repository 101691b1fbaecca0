"""What counts as the same answer."""

import pytest

from tests.facts.compare import differences


@pytest.mark.parametrize(
    ("expected", "got", "parts"),
    [
        ({"status": 200}, {"status": 200}, []),
        ({"status": 200}, {"status": 400}, ["status"]),
        ({"error": "unknown model"}, {"error": "unknown model 'm' is not there"}, []),
        ({"error": ""}, {"error": "whatever is said"}, []),
        ({"error": "unknown model"}, {"error": "no such model"}, ["error"]),
        ({"error": ""}, {"body": "{}"}, ["body", "error"]),
        ({"body": "{}"}, {"error": "wrong"}, ["body", "error"]),
        ({}, {"allow": "GET"}, ["allow"]),
        ({"allow": ""}, {}, []),
        ({"body": '{"a":1,"b":2}'}, {"body": '{"b":2,"a":1}'}, ["body"]),
        ({"body": "[0.20000000298023225]"}, {"body": "[0.20000000298023224]"}, []),
        ({"body": "[9.999999778196309e21]"}, {"body": "[9.999999778196308e21]"}, []),
        ({"body": "[99999998430674950.0]"}, {"body": "[99999998430674940.0]"}, []),
        ({"body": "[0.20000000298023225]"}, {"body": "[0.20000000298023228]"}, ["body"]),
        ({"body": "[1.0]"}, {"body": "[1]"}, ["body"]),
        ({"errors": ["a b"]}, {"errors": ["it is a b"]}, []),
        ({"errors": []}, {"errors": ["it is a b"]}, ["errors"]),
    ],
)
def test_differences(expected, got, parts):
    assert differences(expected, got) == parts
