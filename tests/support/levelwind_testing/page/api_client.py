"""A client of the API that takes a refusal for an answer."""

import json
import urllib.error
import urllib.request

from levelwind_testing.waiting import wait_until

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a test


class ApiAnswer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def document(self):
        return json.loads(self.body)


class ApiClient:
    """Requests to one server; a refusal is an answer."""

    def __init__(self, url, context=None):
        self.url = url.rstrip("/")
        self._context = context

    def request(self, path, *, method="GET", headers=None, body=None):
        asked = urllib.request.Request(  # noqa: S310 - the test's own server
            self.url + path, method=method, headers=headers or {}, data=body
        )
        try:
            with urllib.request.urlopen(asked, timeout=60, context=self._context) as answer:  # noqa: S310
                return ApiAnswer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return ApiAnswer(error.code, error.headers, error.read())

    def get(self, path, **headers):
        return self.request(path, headers=headers)

    def document(self, path):
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return answer.document


def wait_until_served(client):
    def served():
        try:
            return client.get("/healthz")
        except OSError:
            return None

    return wait_until(f"answer of {client.url}", served)
