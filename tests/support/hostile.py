"""Words that somebody else may choose, and what must be true of all that shows them."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

MARK = "pwned"
"""Is in each of them."""

WORDS = {
    "escape": f"a\x1b[31m{MARK}\x1b[2J\x1b]0;title\x07",
    "link": f"\x1b]8;;http://{MARK}\x07x\x1b]8;;\x07",
    "clipboard": f"\x1b]52;c;{MARK}\x07",
    "csi": f"\x9b31m{MARK}\x85",
    "lines": f"a\r\n{MARK}: ready\n\terror\x7f\x08\x00"[:-1],
    "bidi": f"a\u202e{MARK}\u2066\u2069\u200f\u061c",
    "nothing": f"{MARK}\u200b\u2060\ufeff\u00ad\U000e0041",
    "fillers": f"{MARK}\u3164\uffa0\u115f\u2800\u034f\u17b4\ufe0f\u180b\U0001d173\U000e0100",
    "separators": f"{MARK}\u2028\u2029",
    "quotes": f"'\"`\\{MARK}'\"`\\",
    "substitution": f"$(touch {MARK})`touch {MARK}`${{IFS}}",
    "list": f"a; touch {MARK} & true | cat > {MARK}",
    "sed": f"x/;1e touch {MARK};#",
    "option": f"-oProxyCommand=touch${{IFS}}{MARK}",
    "markup": f"</script><b onmouseover='x' title=\"{MARK}\">&amp;<!--",
    "mongosh": f'db.getSiblingDB("{MARK}").dropDatabase()',
    "format": f"{{{{}}}}%s%n{{0}}${{{MARK}}}",
    "long": MARK * 2000,
    "ampersand": f"a&{MARK}",
}
"""By what they try."""

HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
                    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
                    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")
"""What ends a line, controls a terminal, cannot be seen, or turns what follows; but for our own newlines."""


def check_seen(text: str, most: int = 6000) -> str:
    """Anybody may read it on any terminal: nothing is obeyed, and no line is without an end."""
    found = HIDDEN.search(text)
    assert not found, (ascii(text[max(found.start() - 60, 0):found.end() + 20]) if found else "")
    assert all(len(line) <= most for line in text.splitlines()), [len(line) for line in text.splitlines()]
    assert not re.search(rf"(?m)^{MARK}: ready", text), "a line of a stranger's own"
    return text


def check_json(text: str) -> Any:
    """The same, and what it means has the words as they were."""
    check_seen(text, 10_000_000)
    assert text.count("\n") == 1
    return json.loads(text)


def check_page(html: str) -> str:
    check_seen(html, 10_000_000)
    assert "<b onmouse" not in html and "</script><b" not in html
    return html


def check_commands(findings: list[dict[str, Any]]) -> list[str]:
    """Each command is what its words are, and a name in a statement is that name. Returns the lines of those
    that have a word of a stranger."""
    lines = []
    for command in (each for finding in findings for each in finding["commands"]):
        line = check_seen(command["command"])
        assert "\n" not in line
        if command["in"] == "shell":
            assert shlex.split(line) == command["words"]
        else:
            assert command["words"] == [line]
            for name in re.findall(r'get(?:SiblingDB|Collection)\(("(?:[^"\\]|\\.)*")\)', line):
                json.loads(name)
        if MARK in line:
            lines.append(line)
    return lines
