"""The drivers' own test suites, directly and through the proxy. See scripts/driver-suites."""
