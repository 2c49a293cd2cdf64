"""Why a download ended: stable reasons that the operator repeats in conditions, each with what to do."""

from __future__ import annotations

import errno
from enum import StrEnum

from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)


class Reason(StrEnum):
    """Values of `DegradedReason` in the operator."""

    NOT_FOUND = "WeightsNotFound"
    REFUSED = "WeightsRefused"
    VOLUME_FULL = "VolumeFull"
    CHECKSUM = "ChecksumMismatch"
    FAILED = "DownloadFailed"


class DownloadError(Exception):
    """A download that ended. ``message`` is for people and never holds a secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


_TOKEN = "set spec.model.secretRef to a token that may read it"


def explained(error: Exception, what: str) -> DownloadError:
    """An error of huggingface_hub or of the volume in our words. what: which weights, such as hf://a/b."""
    if isinstance(error, DownloadError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadError(Reason.VOLUME_FULL, f"the volume is full: give {what} a larger one")
    if isinstance(error, GatedRepoError):
        message = f"{what} is gated: accept its terms on the hub, and {_TOKEN}"
        return DownloadError(Reason.REFUSED, message)
    if isinstance(error, RepositoryNotFoundError):
        # The hub answers alike for what is not there and for what this token may not see.
        return DownloadError(Reason.NOT_FOUND, f"{what}: no such repository; if it is private, {_TOKEN}")
    if isinstance(error, RevisionNotFoundError):
        return DownloadError(Reason.NOT_FOUND, f"{what}: no such revision; correct it, or leave it out")
    if isinstance(error, HFValidationError):
        return DownloadError(Reason.NOT_FOUND, f"{what}: the hub has no such names; correct the uri")
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        return DownloadError(Reason.REFUSED, f"the hub refuses {what}: {_TOKEN}")
    cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return DownloadError(Reason.FAILED, f"{what}: {cause}")
