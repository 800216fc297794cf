"""Where root may not do what a systemd of its own takes, as in most containers, the tests that need
one are not there at all, rather than skipped: test_package.py has what can be said without."""

from nested_systemd import why_impossible

_REASON = why_impossible()
collect_ignore = ["test_service.py"] if _REASON else []


def pytest_report_header() -> str:
    return f"systemd of its own: {_REASON or 'yes'}"
