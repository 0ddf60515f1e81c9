"""What all pages of the project share: where they listen, and the headers of their responses."""

import errno
import socket
from typing import TYPE_CHECKING, Final

from bci_stream.errors import PageError

if TYPE_CHECKING:  # the judge's process listens for the page's, and needs no web server
    from aiohttp import web

BACKLOG: Final = 1024

# A page loads nothing from other hosts and runs no inline script: what a team sends stays text.
SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


async def add_headers(_: "web.Request", response: "web.StreamResponse") -> None:
    """A signal handler of `web.Application.on_response_prepare`: SECURITY, and no stale copies."""
    response.headers.update(SECURITY)
    response.headers.setdefault("Cache-Control", "no-cache")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on host:port (0: any free port); raises PageError if there can be none."""
    where = f"{host}:{port}"
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # `localhost` may be both ::1 and 127.0.0.1; browsers try both.
        found.sort(key=lambda entry: entry[0] != socket.AF_INET)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OverflowError:
        why = "a port is a number from 0 to 65535"
    except OSError as error:
        why = str(error.strerror or error)
        if error.errno == errno.EADDRINUSE:
            why = (
                "the port is in use (another judge or viewer?); "
                "choose another one with --port, or --port 0 for any free one"
            )
    raise PageError(f"the page can't be served on {where}: {why}")
