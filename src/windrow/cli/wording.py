"""Errors of the library in words of the command line: what is `on_full=` in Python is `--on-full` here.

One rule for all errors and commands. The options of a command have the names of the library's keywords, so a keyword
that a message names is looked up among them:

    set time=                                                   give --time
    on_full must be one of 'shed', 'fail'                       --on-full must be one of ...
    give all streams a time column, or use order='arrival'      give all streams a time column
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand

from windrow.errors import SpecError, WindrowError

_QUOTED = r"(?<![\w=])'[^']*'|(?<![\w=])\"[^\"]*\""  # what a user has written
_KEYWORD = r"(?<![\w/\\])([a-z_]+)=(?:'([^']*)'|([\w.]+))?(?![\w./\\])"  # and no folder such as data/time=12/
_OTHERWISE = r",? or [^,;:'\"]*?\b([a-z_]+)=[^,;:]*"
_SAID = re.compile(rf"({_QUOTED})|(?:\bset )?{_KEYWORD}")
_ADVISED = re.compile(rf"({_QUOTED})|{_OTHERWISE}")
_NAMED = re.compile(r"\('([^']*)', '([^']*)'\)")  # a column and its name
_SUBJECT = re.compile(r"([a-z_]+)(?=: | must | is )")


class Command(TyperCommand):
    """A command whose errors name its own options, and whose help is broken into lines by the width of the screen."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help) if self.help else self.help

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        options = {param.name or "": param.opts[0] for param in self.params if param.opts[0].startswith("--")}
        try:
            with _warnings_worded(options):
                return super().invoke(ctx)
        except WindrowError as error:
            told = worded(str(error), options, isinstance(error, SpecError))
            if told == str(error):
                raise
            raise type(error)(told) from error


@contextmanager
def _warnings_worded(options: Mapping[str, str]) -> Iterator[None]:
    """What the library warns of names options, too, and is said once, though the first rows are joined twice."""
    said: set[str] = set()

    def named(record: logging.LogRecord) -> bool:
        record.msg, record.args = worded(record.getMessage(), options, subject=False), ()
        new = record.msg not in said
        said.add(record.msg)
        return new

    log = logging.getLogger("windrow")
    log.addFilter(named)
    try:
        yield
    finally:
        log.removeFilter(named)


def worded(message: str, options: Mapping[str, str], subject: bool = True) -> str:
    """A message with options in place of keywords; what no option can do is not advised.

    `subject` says whether the message may begin with the name of a keyword, and not of a file.

    >>> worded("no time column: set time=, or use order='arrival'", {"time": "--time"})
    'no time column: give --time'
    >>> worded("on_full must be one of 'shed', 'fail'", {"on_full": "--on-full"})
    "--on-full must be one of 'shed', 'fail'"
    """

    def advised(found: re.Match[str]) -> str:
        return found[0] if found[1] or found[2] in options else ""

    def said(found: re.Match[str]) -> str:
        quoted, keyword, text, value = found.groups()
        if quoted or keyword not in options:
            return found[0]
        given = next((f" {each}" for each in (text, value) if each), "")
        return ("give " if found[0].startswith("set ") else "") + options[keyword] + given

    message = _SAID.sub(said, _ADVISED.sub(advised, _NAMED.sub(r"'\1 as \2'", message)))
    if subject and (found := _SUBJECT.match(message)) and found[1] in options:
        message = options[found[1]] + message[found.end() :]
    return message
