"""Headless Chromium, where there is one."""

from leaderboard.page.conftest import browser

__all__ = ["browser"]
