"""Handing over: a program at a place, such as a Spark query, gives rows of a stream to the site there.

A batch has a number, and a site that has noted a batch takes it only once: a query that was killed hands the same batch
over again, as Spark gives the same rows the same number. The call returns when the rows are in the site's journal, so
Spark commits what cannot get lost.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from windrow.errors import InputError, SpecError
from windrow.sites.ground.description import Description, describe
from windrow.sites.ground.neighbours import OPTIONS
from windrow.sites.ground.trust import plain
from windrow.sites.messages import VERSION

PATIENCE = 600.0  # seconds for which a site may be away
SHORTEST, LONGEST = 0.2, 5.0  # seconds between two attempts
_REFUSALS = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError, flight.FlightServerError)
_ABSENCES = (
    *(flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightInternalError),
    *(flight.FlightCancelledError, OSError),
)


@dataclass(frozen=True)
class Handing:
    """Hands rows of one stream over; plain values only, so it can travel to wherever Spark calls it."""

    location: str
    head: Mapping[str, Any]
    options: Mapping[str, Any]
    headers: tuple[tuple[bytes, bytes], ...]
    patience: float = PATIENCE

    @classmethod
    def to(cls, file: str | Path | Description, stream: str) -> "Handing":
        """The way to the site of a stream, as seen from that site's own place."""
        description = file if isinstance(file, Description) else describe(file)
        description.query.stream(stream)
        if description.feeds[stream].files is not None:
            raise SpecError(f"streams.{stream} has files: leave them out, and its rows can be handed over")
        site = description.places[stream]
        trust = description.trust(site)
        scheme = "grpc+tls" if trust.secure else "grpc+tcp"
        head = {"version": VERSION, "description": description.id, "stream": stream}
        location = f"{scheme}://{description.station(site).address}"
        return cls(location, head, trust.client_options(site), tuple(trust.headers()))

    def __call__(self, batch: Any, number: int) -> None:
        """A micro-batch of Spark."""
        self.rows(batch.toArrow(), batch=number)

    def rows(self, table: pa.Table, **head: Any) -> None:
        """Hand rows over, again and again while the site is away."""
        deadline, pause = time.monotonic() + self.patience, SHORTEST
        while True:
            try:
                return self._put(table, head)
            except _REFUSALS as error:
                raise InputError(f"{self.location} refuses these rows: {plain(error)}") from None
            except _ABSENCES as error:
                if time.monotonic() > deadline:
                    away = f"{self.location} has been away for {self.patience:g} seconds"
                    raise InputError(f"{away}: {plain(error)}") from None
            time.sleep(pause)
            pause = min(LONGEST, 2 * pause)

    def _put(self, table: pa.Table, head: Mapping[str, Any]) -> None:
        descriptor = flight.FlightDescriptor.for_command(json.dumps({**self.head, **head}).encode())
        options = flight.FlightCallOptions(headers=list(self.headers))
        with flight.FlightClient(self.location, generic_options=OPTIONS, **self.options) as client:
            writer, _ = client.do_put(descriptor, table.schema, options)
            writer.write_table(table)
            writer.close()


def feed(
    frame: Any, file: str | Path, stream: str, *, checkpoint: str, trigger: Mapping[str, Any] | None = None
) -> Any:
    """Start a query that hands the rows of a streaming DataFrame over to the site of a stream; classic or Connect.

    Parameters:
        frame: a streaming DataFrame with the columns of the stream.
        file: the description of the sites.
        checkpoint: where Spark notes what it has handed over. Give each stream its own, and keep it as long as the
            folder of the site: the numbers of its batches are what tells a batch from one that came before.
        trigger: as `DataStreamWriter.trigger` takes it, for example {"availableNow": True}.
    """
    description = describe(file)
    columns = [f"`{name}`" for name in description.schemas[stream].names]
    writer = frame.select(*columns).writeStream.foreachBatch(Handing.to(description, stream))
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


def end(file: str | Path, stream: str) -> None:
    """Say that a stream whose rows are handed over has no more of them."""
    description = describe(file)
    schema = description.network.bound.schemas[stream]
    nothing = pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    Handing.to(description, stream).rows(nothing, end=True)
