"""How the table libraries are told to reach a store. One source: `Location.options`."""

from __future__ import annotations

from datalake.uri import Location

__all__ = ["delta_options", "lance_options"]

# An endpoint that does not answer is reported within some ten seconds, not after minutes.
_PATIENCE = {"connect_timeout": "3s", "timeout": "60s"}


def lance_options(location: Location) -> dict[str, str]:
    """`storage_options` for Lance."""
    if location.is_local:
        return {}
    return {**_PATIENCE, "client_max_retries": "3", "client_retry_timeout": "8", **_s3(location)}


def delta_options(location: Location) -> dict[str, str]:
    """`storage_options` for Delta."""
    if location.is_local:
        return {}
    return {
        **_PATIENCE,
        "max_retries": "3",
        "retry_timeout": "8s",
        **_s3(location),
        **({"aws_conditional_put": "etag"} if location.scheme == "s3" else {}),
    }


def _s3(location: Location) -> dict[str, str]:
    if location.scheme != "s3":
        return {}
    options = location.options.resolved()
    given = {
        "aws_access_key_id": options.access_key,
        "aws_secret_access_key": options.secret_key,
        "aws_session_token": options.session_token,
        "aws_endpoint": options.endpoint,
        # Self-hosted stores have no regions, and the libraries insist on one.
        "aws_region": options.region or ("us-east-1" if options.endpoint else None),
        "aws_virtual_hosted_style_request": "false" if options.path_style else "true",
    }
    if (options.endpoint or "").startswith("http://"):
        given["allow_http"] = "true"
    return {key: value for key, value in given.items() if value}
