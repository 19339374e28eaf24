"""From a query text to its syntax tree; errors point at the place."""

from __future__ import annotations

from functools import cache
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from windrow.cql.grammar import GRAMMAR
from windrow.cql.syntax import (
    AGGREGATES,
    Aggregate,
    Column,
    Expression,
    Item,
    Literal,
    Operation,
    Place,
    Select,
    Source,
    WindowText,
    parts,
)
from windrow.errors import CqlError, SpecError, alternatives
from windrow.spec import parse_duration

_SIGNS = {
    "COMMA": ",", "SUM_SIGN": "+, -", "PRODUCT_SIGN": "*, /, %", "STAR": "*", "MINUS": "-", "LPAR": "(", "RPAR": ")",
    "LSQB": "a window in brackets", "RSQB": "]", "DOT": ".", "SEMICOLON": "the end", "$END": "the end",
    "NAME": "a name", "NUMBER": "a number", "STRING": "a text in quotes", "COMPARISON": "a comparison",
    "COUNT": "a whole number", "LENGTH": "a length of time",
}  # fmt: skip
_MOST_EXPECTED = 8

MOST_NESTED = 64
"""How deep blocks may stand in blocks, and operations in operations; a chain such as a + b - c is one level."""


def parse(text: str) -> Select:
    """The syntax tree of a query text.

    >>> tree = parse("Select Istream(*) From S1 [Rows 50,000], S2 [Rows 50,000] Where S1.A = S2.A and S2.B > 10")
    >>> tree.emit, [str(source.window) for source in tree.sources], str(tree.where)
    ('istream', ['[Rows 50000]', '[Rows 50000]'], '(S1.A = S2.A) and (S2.B > 10)')
    """
    if not isinstance(text, str) or not text.strip():
        raise CqlError("a query must be a text such as 'Select * From S [Rows 10]', got nothing to read")
    try:
        tree: Select = _Trees(text).transform(_parser().parse(text))
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, SpecError):
            raise error.orig_exc from None
        raise
    _check_nesting(tree, text)
    return tree


def _check_nesting(tree: Select, text: str) -> None:
    """Refuse what is nested too deep for those who walk through it."""
    waiting: list[tuple[Select | Expression, int]] = [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > MOST_NESTED:
            what = (
                f"the query is nested more than {MOST_NESTED} levels deep here: chains such as a and b and c may have "
                "any length, so take parentheses out, or run an inner block as a query of its own"
            )
            raise CqlError.at(text, node.place.line, node.place.column, what)
        if isinstance(node, Select):
            waiting += [(source.what, level + 1) for source in node.sources if isinstance(source.what, Select)]
            values = [*(item.value for item in node.items), node.where, node.having]
            waiting += [(value, 1) for value in values if value is not None]
        else:
            waiting += [(part, level + 1) for part in parts(node)]


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _unexpected(text: str, error: UnexpectedInput) -> CqlError:
    if isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        lines = text.rstrip().splitlines()
        what = f"the text ends too early; expected {_expected(error)}"
        return CqlError.at(text, len(lines), len(lines[-1]) + 1, what)
    if isinstance(error, UnexpectedCharacters):
        found = repr(text[error.pos_in_stream]) if error.pos_in_stream is not None else "this"
        return CqlError.at(text, error.line, error.column, f"cannot read {found}")
    assert isinstance(error, UnexpectedToken)
    what = f"did not expect {str(error.token)!r}; expected {_expected(error)}"
    return CqlError.at(text, error.line, error.column, what)


def _expected(error: Any) -> str:
    names = sorted({_SIGNS.get(name, name.lower().strip("_")) for name in getattr(error, "expected", ())})
    words = [name for name in names if name.isalpha() or " " in name] + [n for n in names if not n[0].isalpha()]
    more = ", or the like" if len(words) > _MOST_EXPECTED else ""
    return ", ".join(words[:_MOST_EXPECTED]) + more


@v_args(meta=True)
class _Trees(Transformer_NonRecursive[Token, Any]):
    """One method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text

    # ------------------------------------------------------------------------------------- blocks

    def start(self, meta: Any, parts: list[Any]) -> Select:
        tree: Select = parts[0]
        return tree

    def select(self, meta: Any, parts: list[Any]) -> Select:
        emit, distinct, items = parts[1]
        clauses: dict[str, list[Any]] = {str(part.data): part.children for part in parts if isinstance(part, Tree)}
        return Select(
            items=items,
            sources=tuple(part for part in parts if isinstance(part, Source)),
            where=clauses["where"][0] if "where" in clauses else None,
            group=tuple(clauses.get("group", ())),
            having=clauses["having"][0] if "having" in clauses else None,
            distinct=distinct,
            emit=emit,
            place=_place(meta),
        )

    def where(self, meta: Any, parts: list[Any]) -> Tree[Any]:
        return Tree("where", parts)

    def group(self, meta: Any, parts: list[Any]) -> Tree[Any]:
        return Tree("group", parts)

    def having(self, meta: Any, parts: list[Any]) -> Tree[Any]:
        return Tree("having", parts)

    def emit(self, meta: Any, parts: list[Any]) -> str:
        return str(parts[0]).lower()

    def streamed(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return (parts[0], *parts[1][1:])

    def listed(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        items = tuple(part for part in parts if isinstance(part, Item))
        return "relation", len(items) < len(parts), items

    def everything(self, meta: Any, parts: list[Any]) -> Item:
        return Item(None, None, None, _place(meta))

    def everything_of(self, meta: Any, parts: list[Any]) -> Item:
        return Item(None, None, _name(parts[0]), _place(meta))

    def valued(self, meta: Any, parts: list[Any]) -> Item:
        return Item(parts[0], _name(parts[1]) if len(parts) > 1 else None, None, _place(meta))

    # ------------------------------------------------------------------------------------ sources

    def stream(self, meta: Any, parts: list[Any]) -> Source:
        names = [_name(part) for part in parts if isinstance(part, Token)]
        windows = [part for part in parts if isinstance(part, WindowText)]
        if len(windows) > 1:
            place = windows[1].place
            raise CqlError.at(self.source, place.line, place.column, f"{names[0]!r} has two windows: leave one out")
        return Source(names[0], windows[0] if windows else None, names[-1], _place(meta))

    def block(self, meta: Any, parts: list[Any]) -> Source:
        window = parts[1] if isinstance(parts[1], WindowText) else None
        return Source(parts[0], window, _name(parts[-1]), _place(meta))

    def range(self, meta: Any, parts: list[Any]) -> WindowText:
        try:
            length = parse_duration(str(parts[0]).replace(",", ""), "the window")
        except SpecError as error:
            raise CqlError.at(self.source, parts[0].line, parts[0].column, str(error)) from None
        return WindowText("range" if length.amount else "now", length, place=_place(meta))

    def unbounded(self, meta: Any, parts: list[Any]) -> WindowText:
        return WindowText("unbounded", place=_place(meta))

    def now(self, meta: Any, parts: list[Any]) -> WindowText:
        return WindowText("now", place=_place(meta))

    def rows(self, meta: Any, parts: list[Any]) -> WindowText:
        return WindowText("rows", rows=self._count(parts[0]), place=_place(meta))

    def partition(self, meta: Any, parts: list[Any]) -> WindowText:
        by = tuple(_name(part) for part in parts[:-1])
        return WindowText("partition", rows=self._count(parts[-1]), by=by, place=_place(meta))

    def _count(self, token: Token) -> int:
        count = int(token.replace(",", ""))
        if not 0 < count < 1 << 62:
            what = f"a window in rows holds at least one row, got {token}"
            raise CqlError.at(self.source, token.line or 1, token.column or 1, what)
        return count

    # -------------------------------------------------------------------------------- expressions

    def column(self, meta: Any, parts: list[Any]) -> Column:
        return Column(None, _name(parts[0]), _place(meta))

    def column_of(self, meta: Any, parts: list[Any]) -> Column:
        return Column(_name(parts[0]), _name(parts[1]), _place(meta))

    def number(self, meta: Any, parts: list[Any]) -> Literal:
        text = str(parts[0])
        return Literal(int(text) if text.isdigit() else float(text), _place(meta))

    def text(self, meta: Any, parts: list[Any]) -> Literal:
        return Literal(str(parts[0])[1:-1].replace("''", "'"), _place(meta))

    def true(self, meta: Any, parts: list[Any]) -> Literal:
        return Literal(True, _place(meta))

    def false(self, meta: Any, parts: list[Any]) -> Literal:
        return Literal(False, _place(meta))

    def null(self, meta: Any, parts: list[Any]) -> Literal:
        return Literal(None, _place(meta))

    def count_all(self, meta: Any, parts: list[Any]) -> Aggregate:
        return self._aggregate(meta, parts[0], None, False)

    def call(self, meta: Any, parts: list[Any]) -> Aggregate:
        return self._aggregate(meta, parts[0], parts[-1], len(parts) > 2)

    def _aggregate(self, meta: Any, token: Token, operand: Expression | None, distinct: bool) -> Aggregate:
        function = str(token).lower()
        if function not in AGGREGATES:
            near = alternatives(function, (*AGGREGATES, "istream", "dstream"), "functions")
            raise CqlError.at(self.source, meta.line, meta.column, f"there is no function {str(token)!r}{near}")
        if operand is None and function != "count":
            raise CqlError.at(self.source, meta.line, meta.column, f"{function}(*) has no meaning: name a column")
        return Aggregate(function, operand, distinct, _place(meta))

    def compare(self, meta: Any, parts: list[Any]) -> Operation:
        op = {"<>": "!="}.get(str(parts[1]), str(parts[1]))
        return Operation(op, (parts[0], parts[2]), _place(meta))

    def between(self, meta: Any, parts: list[Any]) -> Operation:
        place = _place(meta)
        low, high = Operation(">=", (parts[0], parts[1]), place), Operation("<=", (parts[0], parts[2]), place)
        return Operation("and", (low, high), place)

    def is_null(self, meta: Any, parts: list[Any]) -> Operation:
        return Operation("is null", (parts[0],), _place(meta))

    def is_not_null(self, meta: Any, parts: list[Any]) -> Operation:
        return Operation("not", (self.is_null(meta, parts),), _place(meta))

    def in_(self, meta: Any, parts: list[Any]) -> Operation:
        place = _place(meta)
        same = [Operation("=", (parts[0], value), place) for value in parts[1:]]
        return same[0] if len(same) == 1 else Operation("or", tuple(same), place)

    def not_in(self, meta: Any, parts: list[Any]) -> Operation:
        return Operation("not", (self.in_(meta, parts),), _place(meta))

    def chain(self, meta: Any, parts: list[Any]) -> Operation:
        """Operands with operators between them."""
        ops = [str(op) for op in parts[1::2]]
        return Operation(ops[0] if len(set(ops)) == 1 else " ".join(ops), tuple(parts[::2]), _place(meta))

    def neg(self, meta: Any, parts: list[Any]) -> Expression:
        if isinstance(parts[0], Literal) and isinstance(parts[0].value, (int, float)):
            return Literal(-parts[0].value, _place(meta))
        return Operation("neg", (parts[0],), _place(meta))


def _operation(op: str) -> Any:
    def made(self: _Trees, meta: Any, parts: list[Any]) -> Operation:
        return Operation(op, tuple(parts), _place(meta))

    return v_args(meta=True)(made)


for _rule, _op in (("or_", "or"), ("and_", "and"), ("not_", "not")):
    setattr(_Trees, _rule, _operation(_op))


def _place(meta: Any) -> Place:
    return Place(getattr(meta, "line", 0), getattr(meta, "column", 0))


def _name(token: Token) -> str:
    return str(token)[1:-1] if str(token).startswith('"') else str(token)
