"""The code of the pages with recipes: a snippet is found by its section and its language."""

from __future__ import annotations

import pathlib
import re
import textwrap

from support.mongod import Mongod
from support.proxy import Proxy

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Page:
    """One of docs/."""

    def __init__(self, name: str):
        self.text = (_DOCS / name).read_text()

    def section(self, heading: str) -> str:
        """Up to the next heading of any rank, in code blocks too: comments are not to begin a line."""
        return re.split(r"(?m)^#+ ", self.text.split(f"# {heading}\n")[1])[0]

    def snippets(self, heading: str, language: str) -> list[str]:
        return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", self.section(heading))

    def languages(self) -> dict[str, int]:
        """How many snippets the page has of each."""
        found = re.findall(r"(?ms)^```(\w*)\n.*?^```$", self.text)
        return {language: found.count(language) for language in {*found}}


def written(server: Mongod, rules: str, directory: pathlib.Path) -> pathlib.Path:
    """A configuration with these rules: YAML, as a page has it."""
    assert rules.startswith("rules:\n")
    config = directory / "config.yaml"
    config.write_text(textwrap.dedent(f"""
        listen: {{address: 127.0.0.1, port: 0}}
        upstream: {{uri: "{server.uri}"}}
        admin: {{listen: null}}
        log: {{format: json}}
        """) + rules)
    return config


def started_with(server: Mongod, rules: str, directory: pathlib.Path) -> Proxy:
    return Proxy(written(server, rules, directory))
