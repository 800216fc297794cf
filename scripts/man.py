#!/usr/bin/env python3
"""Writes the manual pages, as cmake --install and the Debian package have them.

Usage: man.py PROGRAM DIRECTORY --sysconfdir DIR --datadir DIR --docdir DIR

mongo-idproxy(1) is made of the --help of PROGRAM and of each of its commands, and mongo-idproxy.yaml(5) of
docs/configuration.md and docs/permuted.md, which the schema has its descriptions from, too. Only what these do not say is written
here. The pages use man(7): they need no other program, and `mandoc -T lint` has nothing to say about them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import textwrap
from collections.abc import Iterator

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
WIDTH = 79
ESCAPED = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", "…": "..."}


def escaped(text: str) -> str:
    return "".join(ESCAPED.get(character, character) for character in text)


def plain(text: str) -> str:
    """Text without markup. Names are not hyphenated."""
    text = re.sub(r"(?<=\w)–(?=-?\w)", " to ", text)
    return " ".join("\\%" * bool(re.search(r"\w[./_-]\w", word)) + escaped(word) for word in text.split(" "))


def bold(text: str) -> str:
    return f"\\fB{plain(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{plain(text)}\\fR"


def words(text: str) -> str:
    """Of Markdown: `names` become bold, and links to other pages name the page."""
    text = re.sub(r"\[([^\]]+)\]\(#[^)]*\)", r"\1", " ".join(text.split()))
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)?([\w/.-]+)(?:#[^)]*)?\)",
                  lambda link: link[1] if link[1].strip("`") == link[2] else f"{link[1]} ({link[2]})", text)
    return "".join(bold(part.strip("`")) if part.startswith("`") else
                   italic(part.strip("*")) if re.match(r"\*\w", part) else plain(part)
                   for part in re.split(r"(`[^`]+`|\*\w+\*)", text))


def lines(text: str) -> str:
    """Each sentence begins a line, and none is long."""
    wrapped = [line for sentence in re.split(r"(?<=[.:;?]) (?=[A-Z])", text)
               for line in textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)]
    return "\n".join("\\&" * line.startswith(".") + line for line in wrapped)


def sentence(text: str) -> str:
    return lines(text if text.endswith((".", ":")) else text + ".")


def paragraph(text: str) -> str:
    return ".PP\n" + sentence(text)


def literal(code: list[str]) -> str:
    return "\n".join([".PP", ".RS 4", ".EX", *("\\&" * line.startswith(".") + escaped(line) for line in code),
                      ".EE", ".RE"])


def usage(syntax: list[str]) -> str:
    """What is typed as it is becomes bold, and what stands for something else italic."""
    fonts = [re.sub(r"[A-Z][A-Z.:]+|\bN\b|-*[a-z][a-z-]*",
                    lambda word: (italic if word[0].isupper() else bold)(word[0]), line) for line in syntax]
    return "\n".join([".PP", ".EX", *fonts, ".EE"])


def item(name: str, *texts: str) -> str:
    """What is said of a name, indented below it."""
    return f".TP\n{name}\n" + "\n.br\n".join(sentence(text) for text in texts)


def bullet(text: str) -> str:
    return ".IP \\(bu 2\n" + lines(text)


def heading(text: str) -> str:
    return f".SH {plain(text.upper())}"


def page(name: str, section: int, manual: str, *parts: Iterator[str]) -> str:
    """Without empty lines, and without paragraphs that begin behind a heading, where one begins anyway."""
    written = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    date = datetime.datetime.fromtimestamp(written, datetime.timezone.utc).date()
    head = f'.TH {escaped(name.upper())} {section} {date} mongo\\-idproxy "{manual}"\n.ad l'
    text = "\n".join([head, *(each for part in parts for each in part), ""])
    return re.sub(r"(?m)(^\.S[HS] .*\n)\.PP\n", r"\1", text)


class Help:
    """What a command prints with --help."""

    def __init__(self, program: pathlib.Path, *command: str):
        done = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
        self.name = " ".join(command)
        head, _, rest = done.stdout.partition("\nUsage: ")
        self.summary = head.strip().removeprefix("mongo-idproxy: ")
        usage, _, rest = rest.partition("\n\n")
        self.usage = [line.removeprefix(" " * len("Usage: ")) for line in usage.splitlines()]
        self.options: dict[str, str] = {}
        self.commands: dict[str, str] = {}
        self.text: list[str] = []
        self.examples: list[str] = []
        self.said: dict[str, str] = {}
        for block in rest.strip("\n").split("\n\n"):
            self._add(block.strip("\n"))

    def _add(self, block: str) -> None:
        if block.startswith("Options:"):
            self.options = dict(_table(block))
        elif block.startswith("Subcommands:"):
            self.commands = dict(_table(block))
        elif labelled := re.findall(r"(?ms)^(Examples|Exit codes|Signals): +(.*?)(?=^\S|\Z)", block):
            for label, text in labelled:
                if label == "Examples":
                    self.examples = [line.removeprefix(" " * 12) for line in text.rstrip().splitlines()]
                else:
                    self.said[label] = " ".join(text.split())
        elif not block.startswith("Positionals:"):  # the usage and the text say more about these
            self.text.append(" ".join(block.split()))


def _table(block: str) -> Iterator[tuple[str, str]]:
    """Names, and what the column to their right says."""
    for entry in re.findall(r"(?m)^  \S.*(?:\n {4,}.*)*", block):
        name, _, meaning = entry.strip().partition("  ")
        yield name, " ".join(meaning.split())


def options(of: Help, without: tuple[str, ...] = ()) -> Iterator[str]:
    for syntax, meaning in of.options.items():
        names, _, value = syntax.partition(" ")
        if names not in without:
            yield item(", ".join(map(bold, names.split(","))) + (" " + italic(value) if value else ""), words(meaning))


def command_section(command: Help) -> Iterator[str]:
    yield f".SS {plain(command.name)}"
    yield paragraph(plain(command.summary))
    yield usage(command.usage)
    yield from (paragraph(words(text)) for text in command.text)
    yield from options(command, without=("-h,--help", "-c,--config"))
    yield from (paragraph(plain(f"{label}: {text}")) for label, text in command.said.items())


def command_page(program: pathlib.Path, sysconfdir: str, datadir: str, docdir: str) -> Iterator[str]:
    main = Help(program)
    commands = [Help(program, name) for name in main.commands]
    yield heading("name") + f"\nmongo\\-idproxy \\- {plain(main.summary)}"
    yield heading("synopsis")
    yield usage(main.usage)
    yield heading("description")
    yield from (paragraph(plain(text)) for text in main.text)
    yield paragraph("\\fBmongo\\-idproxy.yaml\\fR(5) describes the configuration.")
    yield heading("options")
    yield from options(main)
    yield heading("commands")
    yield paragraph(f"Each command has {bold('--help')}, too. {bold('--config')} {italic('FILE')} names the "
                    "configuration; without it, a command looks for one as described above.")
    for each in commands:
        yield from command_section(each)
    yield heading("signals")
    yield paragraph(plain(main.said["Signals"]))
    yield heading("exit status")
    table = re.findall(r"(?m)^\| (\d+) \| (.*?) \|", (DOCS / "troubleshooting.md").read_text())
    yield from (item(bold(code), words(meaning)) for code, meaning in table)
    yield heading("environment")
    yield item(f"{bold('NO_COLOR')}, {bold('TERM')}",
               f"There are no colours if {bold('NO_COLOR')} is set, or if {bold('TERM')} is {bold('dumb')}.")
    yield item(bold("CREDENTIALS_DIRECTORY"),
               f"Where systemd puts the secrets of {bold('LoadCredential=')}. A configuration can name this variable, "
               f"and any other one, as {bold('${NAME}')}.")
    yield heading("files")
    yield item(italic("/etc/mongo-idproxy/mongo-idproxy.yaml"),
               "The configuration." if sysconfdir == "/etc" else
               f"The configuration. If it is missing, {italic(sysconfdir + '/mongo-idproxy/mongo-idproxy.yaml')}")
    yield item(italic("mongo-idproxy.service"), f"The unit. Change it with {bold('systemctl edit mongo-idproxy')}.")
    yield item(italic(f"{datadir}/mongo-idproxy/"),
               "A schema of the configuration for editors, a dashboard for Grafana, and alerts for Prometheus.")
    yield item(italic(f"{docdir}/docs/"),
               f"The documentation. Begin with {italic('installation.md')} and {italic('operations.md')}.")
    yield heading("examples")
    for each in [main, *commands]:
        yield paragraph(plain((each.summary if each.name else "Check a configuration, and serve") + ":"))
        yield literal(each.examples)
    yield heading("see also")
    yield f".BR mongo\\-idproxy.yaml (5),\n.BR systemctl (1),\n.BR journalctl (1)"


def blocks(markdown: str) -> Iterator[str]:
    """Paragraphs, lists, tables and code."""
    for block in re.findall(r"(?ms)^```.*?^```$|^\S.*?(?=\n\n|\Z)", markdown.strip()):
        if block.startswith("```"):
            yield literal(block.splitlines()[1:-1])
        elif block.startswith("|"):
            yield from keys(block)
        elif block.startswith("- "):
            yield from (bullet(words(each)) for each in re.split(r"(?m)^- ", block)[1:])
        else:
            yield paragraph(words(block))


def keys(table: str) -> Iterator[str]:
    """A table of keys, or another one, whose rows are told in full."""
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    for row in rows:
        if head[0] != "Key":
            name = "\\&" * row[0].startswith(".") + words(row[0])
            yield item(name, *(words(f"{title}: {cell}") for title, cell in zip(head[1:], row[1:])))
            continue
        cells = {title: cell for title, cell in zip(head, row) if cell != "–"}
        facts = [cells["Type, range"]]
        if "Default" in cells:
            facts.append("required" if cells["Default"] == "required" else "default: " + cells["Default"])
        if "Effective" in cells:
            facts.append("effective: " + cells["Effective"])
        yield item(words(cells["Key"]), words("; ".join(facts)), words(cells["Meaning"]))


def configuration_page(sysconfdir: str, docdir: str) -> Iterator[str]:
    keys = (DOCS / "permuted.md").read_text().partition("## Keys of")
    parts = re.split(r"(?m)^(#+) (.*)\n", (DOCS / "configuration.md").read_text() + "".join(keys[1:]))
    (_, introduction), *sections = zip(zip(parts[1::3], parts[2::3]), parts[3::3])
    yield heading("name") + "\nmongo\\-idproxy.yaml \\- configuration of mongo\\-idproxy"
    yield heading("synopsis") + f"\n{italic(sysconfdir + '/mongo-idproxy/mongo-idproxy.yaml')}"
    yield heading("description")
    yield from blocks(introduction)
    for (level, title), text in sections:
        yield heading(title) if level == "##" else f".SS {plain(title)}"
        yield from blocks(text)
    (example,) = re.findall(r"(?s)Most installations set these keys:\n\n```yaml\n(.*?)```",
                            (DOCS / "installation.md").read_text())
    yield heading("examples") + "\nMost installations set these keys:"
    yield literal(example.splitlines())
    yield heading("see also") + "\n.BR mongo\\-idproxy (1)"
    yield paragraph(f"The pages that are named here are in {italic(docdir + '/docs/')}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    for place in ("sysconfdir", "datadir", "docdir"):
        parser.add_argument(f"--{place}", required=True)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    (given.directory / "mongo-idproxy.1").write_text(page(
        "mongo-idproxy", 1, "User Commands",
        command_page(given.program.resolve(), given.sysconfdir, given.datadir, given.docdir)))
    (given.directory / "mongo-idproxy.yaml.5").write_text(page(
        "mongo-idproxy.yaml", 5, "File Formats", configuration_page(given.sysconfdir, given.docdir)))


if __name__ == "__main__":
    main()
