"""What can go wrong between us and the API server, in three kinds that callers treat differently."""

from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


class LoginError(Exception):
    """There is no usable way to log in; the message names the file or variable and the way out."""


class ApiUnavailable(Exception):  # noqa: N818 - it is a state of the world that passes, and callers wait it out
    """The API server cannot be reached, or asks to be left alone (429, 5xx): try again later.

    Attributes:
        status: HTTP status, or None when there was no answer.
        retry_after: how long the server wants us to wait, or None. [s]
        bad_certificate: why the server's certificate is refused, or empty when it is not.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        retry_after: float | None = None,
        bad_certificate: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.bad_certificate = bad_certificate

    @property
    def about_object(self) -> bool:
        """Whether the server is there, and failed at this request: an admission webhook is away, for one."""
        return self.status == 500  # noqa: PLR2004 - HTTP


class ApiError(Exception):
    """The API server refused the request: trying again unchanged is no use.

    Attributes:
        status: HTTP status (400 to 499, without 429).
        reason: one word for programs, such as "NotFound" or "Invalid".
        message: the server's sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason or 'no reason given'}, HTTP {status})")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def about_object(self) -> bool:
        """Whether others may still be served: it is not that we are unknown, or lack the right."""
        return self.status not in {401, 403}

    @property
    def not_found(self) -> bool:
        return self.status == 404  # noqa: PLR2004 - HTTP

    @property
    def conflict(self) -> bool:
        return self.status == 409  # noqa: PLR2004 - HTTP

    @property
    def other_uid(self) -> bool:
        """Whether another object has taken the name: the uid that was stated is not its own."""
        return self.status == 422 and "metadata.uid" in self.message  # noqa: PLR2004 - HTTP

    @property
    def gone(self) -> bool:
        """Whether the resource version or continue token is too old: list again."""
        return self.status == 410  # noqa: PLR2004 - HTTP


async def optional(response: Awaitable[_T]) -> _T | None:
    """Await a response; None where the API server has no such object."""
    try:
        return await response
    except ApiError as error:
        if error.not_found:
            return None
        raise
