"""Errors of the clients.

ClientError
├── ServiceProblem       the service answered with an error
└── ServiceUnreachable   the service did not answer
"""

from __future__ import annotations


class ClientError(Exception):
    """The service did not do what was asked."""


class ServiceUnreachable(ClientError):
    """The service cannot be reached, or did not answer in time."""


class ServiceProblem(ClientError):
    """The service answered with an error, as RFC 9457 describes it.

    status       the HTTP status, such as 404
    kind         the word for the error, such as "not-stored"; "" if something else than the service answered
    title        what the kind means; `detail` is what was wrong with this request, often ""
    request_id   the ID of the request in the log of the service
    retry_after  seconds to wait before the next try, or None
    """

    def __init__(
        self,
        status: int,
        *,
        kind: str = "",
        title: str = "",
        detail: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {kind}: {detail or title}".replace(" :", ":"))
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after
