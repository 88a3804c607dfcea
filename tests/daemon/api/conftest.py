"""Fixtures of the API's tests: a server over a scripted installation, and a client of it."""

import pytest

from levelwind_testing.page.api_client import TOKEN, ApiClient, wait_until_served
from levelwind_testing.page.scripted_groups import small_installation
from levelwind_testing.page.served_page import ServedPage, write_tokens


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    tokens = write_tokens(tmp_path_factory.mktemp("http"), **{"deploy-bot": TOKEN})
    served = ServedPage(small_installation(), token_file=tokens)
    wait_until_served(ApiClient(served.url))
    yield served
    served.close()


@pytest.fixture(scope="session")
def client(served):
    return ApiClient(served.url)
