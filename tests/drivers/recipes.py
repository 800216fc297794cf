"""The code of the pages with recipes: a snippet is found by its section and its language."""

from __future__ import annotations

import pathlib
import re

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
