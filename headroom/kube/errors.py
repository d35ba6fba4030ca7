"""The errors of requests to the API server: three kinds that callers treat differently."""

from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


class LoginError(Exception):
    """There is no usable way to log in; the message names the file or variable and the way out."""


class ApiUnavailable(Exception):  # noqa: N818 - it is a state of the world that passes, and callers wait it out
    """The API server cannot be reached or is overloaded (429, 5xx): try again later.

    Attributes:
        status: HTTP status, or None without a response.
        retry_after: the wait that the server requests, or None. [s]
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
        """Return whether the server runs but failed at this request, for example without its admission webhook."""
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
        """Return whether requests for other objects may still succeed: the login is valid and has the right."""
        return self.status not in {401, 403}

    @property
    def not_found(self) -> bool:
        return self.status == 404  # noqa: PLR2004 - HTTP

    @property
    def conflict(self) -> bool:
        return self.status == 409  # noqa: PLR2004 - HTTP

    @property
    def other_uid(self) -> bool:
        """Return whether another object has taken the name: its uid is not the stated one."""
        return self.status == 422 and "metadata.uid" in self.message  # noqa: PLR2004 - HTTP

    @property
    def gone(self) -> bool:
        """Return whether the resource version or continue token has expired: list again."""
        return self.status == 410  # noqa: PLR2004 - HTTP


async def optional(response: Awaitable[_T]) -> _T | None:
    """Await a response; None where the API server has no such object."""
    try:
        return await response
    except ApiError as error:
        if error.not_found:
            return None
        raise
