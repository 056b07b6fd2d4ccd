"""What the server answers when it cannot answer: a status and a body in OpenAI's shape.

::

    ApiError                    {"error": {"message", "type", "param", "code"}}
    ├── invalid    400          code says what: invalid_value, missing, unknown_parameter, unsupported, ...
    │   ├── context_length_exceeded
    │   └── invalid_json
    ├── not_found  404          model_not_found, or no such path
    ├── too_slow   408          the body did not arrive
    ├── too_large  413          the body is larger than the server reads
    ├── queue_full 429          with Retry-After
    ├── closing    503          the server is shutting down
    └── deadline   504          X-Request-Deadline-Ms has passed; says not to retry

The functions build them; there is one class, because a client only ever sees the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "ApiError",
    "body_too_large",
    "body_too_slow",
    "closing",
    "deadline_exceeded",
    "from_validation",
    "invalid",
    "not_found",
    "queue_full",
]


class ApiError(Exception):
    """An answer that is an error.

    Attributes:
        status: the HTTP status.
        message, kind, param, code: the fields of the body; ``kind`` is called ``type`` there.
        headers: to send along.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param, self.code = status, message, kind, param, code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the body.

        >>> invalid("must be a number", param="seed").body()["error"]["param"]
        'seed'
        """
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def invalid(message: str, *, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """The request asks for something wrong or not offered: 400."""
    return ApiError(400, message, param=param, code=code)


def not_found(message: str, *, code: str, param: str | None = None) -> ApiError:
    """There is no such model or path: 404."""
    return ApiError(404, message, param=param, code=code)


def body_too_large(limit: int) -> ApiError:
    """The body is over the limit: 413; whatever of it is still to come is not read."""
    message = f"the request body is larger than {limit} bytes"
    return ApiError(413, message, code="body_too_large", headers={"Connection": "close"})


def body_too_slow(seconds: float) -> ApiError:
    """The body did not arrive in time: 408; the connection is of no further use."""
    message = f"the request body did not arrive within {seconds:g} s"
    return ApiError(408, message, code="body_timeout", headers={"Connection": "close"})


def queue_full(waiting: int, retry_after_s: int) -> ApiError:
    """Too many requests wait already: 429."""
    return ApiError(
        429,
        f"{waiting} requests are waiting already; try again in about {retry_after_s} s",
        kind="rate_limit_error",
        code="queue_full",
        headers={"Retry-After": str(retry_after_s)},
    )


def closing() -> ApiError:
    """The server is shutting down: 503."""
    return ApiError(503, "the server is shutting down", kind="server_error", code="shutting_down")


def deadline_exceeded(milliseconds: int) -> ApiError:
    """The caller's own deadline has passed: 504, and a retry would meet the same deadline."""
    return ApiError(
        504,
        f"the reply was not complete within the {milliseconds} ms of X-Request-Deadline-Ms",
        kind="timeout_error",
        code="deadline_exceeded",
        headers={"X-Should-Retry": "false"},
    )


_CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}


def from_validation(problems: Sequence[Mapping[str, Any]]) -> ApiError:
    """Turn the first of pydantic's findings into a 400 that names the field.

    >>> finding = {"loc": ("messages", 0, "role"), "type": "missing", "msg": "Field required"}
    >>> from_validation([finding]).message
    'messages[0].role: Field required'
    """
    # Where a field may be of several kinds, the finding that got further than the kind is the telling one.
    first = next((item for item in problems if not item["type"].endswith("_type")), problems[0])
    path = ""
    for part in first["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        # The name of a union's branch is no field.
        elif part.isidentifier() and part.islower() and part not in ("str", "int", "float", "bool"):
            path += f".{part}" if path else part
    code = _CODES.get(first["type"], "invalid_type" if first["type"].endswith("_type") else "invalid_value")
    message = first["msg"].removeprefix("Value error, ")
    return invalid(f"{path}: {message}" if path else message, param=path or None, code=code)
