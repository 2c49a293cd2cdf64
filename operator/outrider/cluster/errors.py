"""Errors of requests to the API server.

ClusterError has these subclasses:

- NotFound: the object, its kind or its namespace does not exist.
- Conflict: a newer version or another object exists; read it again.
- Expired: the server no longer has the rest of a list; start the list again.
- TooLarge: an answer or a list exceeds its limit.
- Refused: admission, quota, validation, RBAC or the schema refused the request; a retry does not help.
- Unauthorized: the API server did not accept the credentials, which may be rotating.
- Unavailable: 429, 5xx, no answer, or an answer that cannot be parsed.
- NameTaken: the name belongs to an object of another owner.
"""

from __future__ import annotations


class ClusterError(Exception):
    """Base of all errors that `outrider.cluster` raises.

    reason: stable CamelCase word. retry_after: seconds after which a retry makes sense; None if only a
    change in the cluster helps. action: what a person can do.
    """

    reason = "ClusterError"
    action = "Look at the operator's log."
    default_retry_after: float | None = None

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = self.default_retry_after if retry_after is None else retry_after


class NotFound(ClusterError):
    """HTTP 404."""

    reason = "NotFound"
    action = "Check that the namespace and the custom resource definition exist."


class Conflict(ClusterError):
    """HTTP 409: the object changed or was replaced since it was read."""

    reason = "Conflict"
    action = "None; Outrider retries."
    default_retry_after = 0.5


class Expired(ClusterError):
    """HTTP 410: the server no longer has the rest of a list."""

    reason = "Expired"
    action = "None; Outrider retries."
    default_retry_after = 1.0


class TooLarge(ClusterError):
    """An answer or a list that exceeds its limit."""

    reason = "TooLarge"
    action = (
        "Find the objects of this kind that are so large or so many, and delete those that are not needed."
    )


class Refused(ClusterError):
    """HTTP 400, 403, 413, 422 and other 4xx, and `_NOT_IN_SCHEMA`: the API server refuses the request."""

    reason = "Refused"
    action = "Read the message: admission policy, quota, an unknown field, or a missing RBAC verb."


class Unauthorized(ClusterError):
    """HTTP 401."""

    reason = "Unauthorized"
    action = "Check the operator's service account."
    default_retry_after = 2.0


class Unavailable(ClusterError):
    """HTTP 429 or 5xx, a refused or broken connection, a timeout, a truncated answer."""

    reason = "Unavailable"
    action = "None; Outrider retries."
    default_retry_after = 1.0


class NameTaken(ClusterError):
    """An object with a child's name exists and has another owner; the operator does not change it."""

    reason = "NameTaken"
    action = "Rename the model, or delete the other object."
    default_retry_after = 30.0


_NOT_IN_SCHEMA = "failed to create typed patch object"
"""Message of server-side apply, with HTTP 500, about a field that is unknown or has another type."""


def from_status(status: int, message: str, retry_after: float | None) -> ClusterError:
    """Return the error for an HTTP status >= 300 of the API server."""
    kinds: dict[int, type[ClusterError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 410: Expired}
    if status == 429 or (status >= 500 and _NOT_IN_SCHEMA not in message):
        return Unavailable(message, retry_after=retry_after)
    return kinds.get(status, Refused)(message, retry_after=retry_after)
