"""One HTTP request to an outlet, tried a few times."""

from __future__ import annotations

import re
import time

import httpx

from features.tables import UpstreamError

_TRIES = 3
_FIRST_PAUSE = 0.5  # seconds; doubled each time: an outlet that restarts is back within a run's time
_TIMEOUT = 10.0


def deliver(what: str, method: str, url: str, content: bytes, content_type: str) -> None:
    """Send; a refusal (4xx but 429) is final, everything else is tried again.

    Raises
    ------
    UpstreamError
        The outlet can't be reached or refuses. Passwords in the address are not shown.
    """
    said = ""
    bare, auth = _apart(url)
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
        try:
            answer = httpx.request(
                method,
                bare,
                auth=auth,
                content=content,
                headers={"Content-Type": content_type},
                timeout=_TIMEOUT,
                verify=not url.startswith("http://"),  # reading the certificates takes a tenth of a second
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            said = f"{type(error).__name__} {error}".strip()
            continue
        if answer.is_success:
            return
        said = f"{answer.status_code} {answer.text.strip()[:200]}"
        if 400 <= answer.status_code < 500 and answer.status_code != 429:
            break
    shown = re.sub(r"://[^/\s]+@", "://***@", f"{what} at {url} did not take it: {said}")
    raise UpstreamError(" ".join(shown.split()))


def _apart(url: str) -> tuple[str, tuple[str, str] | None]:
    """The address without its user and password, which httpx would log, and these."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        return url, None
    if not address.userinfo:
        return url, None
    return str(address.copy_with(username=None, password=None)), (address.username, address.password)
