"""Hosts of a test in network namespaces of their own, on bridges in one more; only root can make them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Namespaces:
    """Makes namespaces and connects them to a hub; `close` removes them. Nothing leaves them.

    kind: of the network, as part of the names; three characters at most.
    """

    def __init__(self, kind: str) -> None:
        self._id = f"{kind}{os.getpid()}"
        self._made: list[str] = []
        self.hub = self.namespace("hub")

    def namespace(self, host: str) -> str:
        return f"{self._id}-{host}"

    def make(self) -> None:
        """Make the hub; a subclass adds the hosts."""
        self._add(self.hub)

    def connect(self, host: str, bridge: str, *addresses: str) -> str:
        """Make a host with these addresses on a bridge of the hub; its namespace."""
        inside = self.namespace(host)
        self._add(inside)
        peer = ("peer", "name", "lan", "netns", inside)
        self.ip("-n", self.hub, "link", "add", host, "type", "veth", *peer)
        self.ip("-n", self.hub, "link", "set", host, "master", bridge, "up")
        for address in addresses:
            nodad = ("nodad",) if ":" in address else ()
            self.ip("-n", inside, "addr", "add", address, "dev", "lan", *nodad)
        for device in ("lo", "lan"):
            self.ip("-n", inside, "link", "set", device, "up")
        return inside

    def close(self) -> None:
        for name in self._made:
            self.ip("netns", "del", name)

    def _add(self, name: str) -> None:
        self.ip("netns", "add", name)
        self._made.append(name)

    def ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@contextmanager
def made_or_skipped(network: Namespaces) -> Iterator[None]:
    """Make the namespaces, and remove them at the end; the test is skipped where that is not possible."""
    try:
        network.make()
    except (OSError, subprocess.CalledProcessError) as error:
        network.close()
        pytest.skip(f"network namespaces can't be made here: {error}")
    try:
        yield
    finally:
        network.close()
