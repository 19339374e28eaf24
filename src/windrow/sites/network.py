"""Network: a plan as steps at sites and channels between them."""

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from windrow.errors import SpecError
from windrow.sites.bound import HEAD, TIME
from windrow.sites.edges import Edge, Windows
from windrow.sites.messages import Part
from windrow.sites.plans import Branch, Plan
from windrow.sites.programs import program
from windrow.sites.steps import Placed, Port, Step

CLOCK = pa.schema([pa.field(TIME, pa.int64())])


class Deliver(Step):
    """Reads joined rows: writes matches, with the columns and names of the query's output."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        binding = edge.bound.binding
        fields = [binding.schemas[binding.query.names[o.stream]].field(o.column) for o in binding.outputs]
        return [pa.schema([f.with_name(o.name) for f, o in zip(fields, binding.outputs, strict=True)])]

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.schema = self.schemas(edge)[0]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Choose and name."""
        assert parts[0] is not None
        binding, rows = self.edge.bound.binding, parts[0].table
        columns = [rows[f"{binding.query.names[o.stream]}.{o.column}"] for o in binding.outputs]
        return [Part(pa.Table.from_arrays(columns, schema=self.schema))]


class Merge(Step):
    """Reads the joined rows of both one-way joins of a node of a tree: writes them as one stream, with their heads."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [edge.bound.rows_schema((node_name(edge.head, edge.stream),))]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Put together."""
        heads = (self.edge.head, self.edge.stream)
        return [Part(pa.concat_tables([self._with_head(p.table, h) for p, h in zip(parts, heads, strict=True) if p]))]

    def _with_head(self, rows: pa.Table, head: str) -> pa.Table:
        bound, columns = self.edge.bound, []
        schema = self.schemas(self.edge)[0]
        for name in schema.names:
            if name in rows.column_names:
                columns.append(rows[name])
            elif name == HEAD:
                columns.append(pa.array(np.full(rows.num_rows, bound.place(head))))
            elif name.startswith("@"):  # the time of the head itself
                columns.append(rows[TIME])
            else:  # a key that the other side has under another name
                group = next(group for group in bound.classes if name in group)
                columns.append(rows[next(column for column in group if column in rows.column_names)])
        return pa.Table.from_arrays(columns, schema=schema)


def node_name(below: str, stream: str) -> str:
    """The stream of the joined rows of a node."""
    return f"{below}+{stream}"


class Network:
    """The steps of a plan, in an order in which each comes after those whose channels it reads without a lag.

    A network that takes over from another (`number` is not 0) joins the rows of the intervals from `begin` on. Its
    steps take one interval more, the one before: in it each stream brings all rows that may still be met, and windows
    and copies are filled with them; nobody arrives, so nothing is found that was found before.
    """

    def __init__(
        self, plan: Plan, schemas: Mapping[str, pa.Schema], heads: Collection[str] | None = None, number: int = 0,
        begin: int = 0,
    ) -> None:  # fmt: skip
        """`heads`: the streams whose sequences are run; None is all, which makes the join."""
        self.plan, self.bound = plan, plan.bound(schemas)
        self.number, self.begin = number, begin
        self.first = begin - 1 if number else 0  # the interval that steps take first
        self.id = f"{plan.id}.{number}" if number else plan.id
        self.tag = f"{number}:" if number else ""  # before the names of its steps in messages
        self.steps: list[Placed] = []
        self.schemas: dict[str, pa.Schema] = {}
        self.sources: dict[str, str] = {}  # channels that sites feed: the stream of each
        for name in plan.query.names:
            self._add_source(name)
        for head, legs in plan.sequences:
            if heads is not None and head not in heads:
                continue
            self._add_sequence(head, [(leg.stream, leg.program) for leg in legs])
        if plan.tree:
            self._add_tree(plan.tree)
        self.results = [port.channel for step in self.steps if step.kind is Deliver for port in step.writes]
        self.writers = {port.channel: (step, port.lag) for step in self.steps for port in step.writes}
        self.shortfalls = self._shortfalls()

    def _add_source(self, stream: str) -> None:
        self.schemas[stream] = self.bound.rows_schema((stream,))
        self.sources[stream] = stream
        if self.bound.lives[stream].rows is not None:
            self.schemas[f"{stream}#"] = CLOCK
            self.sources[f"{stream}#"] = stream

    def _add_sequence(self, head: str, legs: list[tuple[str, str]]) -> None:
        rows, site = head, self.plan.site_of(head)
        done: tuple[str, ...] = (head,)
        for stream, name in legs:
            edge = Edge(
                self.bound, f"{head}/{'/'.join((*done[1:], stream))}", done, stream, site, self.plan.site_of(stream),
                self.plan.lag,
            )  # fmt: skip
            for step in program(name).place(edge, rows):
                self._add(step)
            rows, site, done = edge.name, program(name).site(edge), (*done, stream)
        self._add_delivery(edge, site)

    def _add_tree(self, tree: tuple[Branch, ...]) -> None:
        """Two one-way joins for each node: between the joined rows below it, and one more stream."""
        below, site = tree[0].stream, self.plan.site_of(tree[0].stream)
        for branch in tree[1:]:
            own, ends = self.plan.site_of(branch.stream), []
            sides = [(below, site, branch.stream, own, branch.up), (branch.stream, own, below, site, branch.down)]
            for done, source, stream, destination, name in sides:
                edge = Edge(self.bound, f"{done}/{stream}", (done,), stream, source, destination, self.plan.lag)
                for step in program(name).place(edge, done):
                    self._add(step)
                ends.append((edge, program(name).site(edge)))
            if branch is tree[-1]:
                for edge, end in ends:
                    self._add_delivery(edge, end)
                return
            (edge, site), (back, _) = ends
            below = node_name(below, branch.stream)
            reads = (Port(edge.name), Port(back.name))
            self._add(Placed(Merge, f"{below}.merge", site, reads, (Port(below),), edge))

    def _add_delivery(self, edge: Edge, site: str) -> None:
        last = self.plan.result_at or site
        self._add(Placed(Deliver, f"{edge.name}.deliver", last, (Port(edge.name),), (Port(f"{edge.name}=>"),), edge))

    def _add(self, step: Placed) -> None:
        self.steps.append(step)
        for port, schema in zip(step.writes, step.kind.schemas(step.edge), strict=True):
            self.schemas[port.channel] = schema

    def silent(self, step: Placed, port: Port) -> bool:
        """Whether nobody arrives by a port in the interval that fills windows.

        In a tree the rows of that interval are joined with each other below the last node, whose window is joined rows.
        """
        last = not self.plan.tree or step.edge.stream == self.plan.tree[-1].stream
        last |= bool(self.plan.tree) and step.edge.head == self.plan.tree[-1].stream
        return port.channel == step.edge.head and last

    def first_of(self, step: str) -> int:
        """The first interval of which a step, as messages call it, sends a message."""
        return self.first + min((w.lag for s in self.steps if self.tag + s.name == step for w in s.writes), default=0)

    def _shortfalls(self) -> dict[str, int]:
        """How many of the last intervals each step never takes, since what it reads of them is written later."""
        short = dict.fromkeys((step.name for step in self.steps), 0)
        moved = True
        while moved:
            moved = False
            for step in self.steps:
                for port in step.reads:
                    if port.channel in self.writers:
                        writer, lag = self.writers[port.channel]
                        found = short[writer.name] + lag - port.lag
                        if found > short[step.name]:
                            short[step.name], moved = found, True
        return short

    def known(self, channel: str) -> bool:
        """Whether the plan has a channel: the clock of a window in time is not there."""
        return channel in self.schemas

    def schema_of(self, channel: str) -> pa.Schema:
        """The columns of a channel."""
        if channel not in self.schemas:
            raise SpecError(f"the plan has no channel {channel!r}")
        return self.schemas[channel]

    def home(self, channel: str) -> str:
        """The site that writes a channel."""
        if channel in self.sources:
            return self.plan.site_of(self.sources[channel])
        return self.writers[channel][0].site

    def readers(self, channel: str) -> list[str]:
        """The sites that read a channel."""
        return list(dict.fromkeys(s.site for s in self.steps for p in s.reads if p.channel == channel))
