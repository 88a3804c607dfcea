"""The API against its own OpenAPI document: schemathesis makes requests, valid ones and others."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from levelwind_testing.page.api_client import TOKEN

pytestmark = pytest.mark.integration

EXAMPLES = 12
OPERATIONS = (
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /api/v1/status",
    "GET /api/v1/groups",
    "GET /api/v1/groups/{group}",
    "GET /api/v1/offsets/{group}",
    "GET /api/v1/settings",
    "GET /api/v1/history",
    "GET /api/v1/history/{group}",
    "GET /api/v1/cluster",
    "GET /api/v1/pipeline",
    "GET /api/v1/levers",
    "POST /api/v1/levers",
    "GET /api/v1/diff/{group}",
    "GET /api/v1/decisions",
    "GET /api/v1/decisions/{name}",
    "POST /api/v1/decisions/{name}/replay",
)
STREAMS = {"GET /api/v1/events"}
"""They never end; test_http_server.py reads one."""


@pytest.fixture(scope="session")
def schema(served):
    config = schemathesis.Config.from_dict({"request-timeout": 20})
    schema = schemathesis.openapi.from_url(f"{served.url}api/v1/openapi.json", config=config)
    found = [each.ok() for each in schema.get_all_operations()]
    return {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def test_every_operation_is_tested(schema):
    assert schema.keys() == {*OPERATIONS, *STREAMS}


NO_CLUSTER = {
    "POST /api/v1/levers",
    "GET /api/v1/diff/{group}",
    "GET /api/v1/decisions/{name}",
    "POST /api/v1/decisions/{name}/replay",
}
"""They ask the cluster, which no request of this test reaches: 503, as documented."""
WITHOUT_WRONG_REQUESTS = {
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /api/v1/status",
    "GET /api/v1/groups/{group}",
    "GET /api/v1/offsets/{group}",
    "GET /api/v1/settings",
    "GET /api/v1/cluster",
    "GET /api/v1/pipeline",
    "GET /api/v1/levers",
}
"""They take every text, or nothing."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_to_a_valid_request_is_as_documented(schema, name):
    check_answers(schema[name], GenerationMode.POSITIVE, name)


@pytest.mark.parametrize("name", sorted({*OPERATIONS} - WITHOUT_WRONG_REQUESTS))
def test_every_answer_to_a_wrong_request_is_as_documented(schema, name):
    check_answers(schema[name], GenerationMode.NEGATIVE, name)


def check_answers(operation, mode, name):
    """No request has an answer that its document does not promise."""
    # An order may be whole by its schema and still not fit: 400 with the reason.
    excluded = [positive_data_acceptance, *([not_a_server_error] if name in NO_CLUSTER else [])]

    @settings(
        max_examples=4 if name in NO_CLUSTER else EXAMPLES,
        phases=(Phase.explicit, Phase.generate),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        answer = case.call(headers={**(case.headers or {}), "Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code < 500 or (answer.status_code == 503 and name in NO_CLUSTER)
        case.validate_response(answer, excluded_checks=excluded)

    check()
