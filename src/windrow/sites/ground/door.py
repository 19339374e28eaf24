"""Door: the only port of a site. Who comes in is asked for a certificate, then shown to the Flight server behind it.

gRPC drops whoever does not speak as it expects without telling anybody. So the door does the handshake itself: a caller
without a certificate of the authority, or one that does not speak HTTP/2, is refused here with a reason, counted, and
logged in one line. Others are passed on, byte by byte, to the Flight server, which listens on a port of loopback that
it has told only to the door; a call that did not come through the door is refused there.

Who has come in is a stranger until the server has welcomed a call of his: until then he may say little, and not for
long, and he is the first to go when there are too many.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # what every HTTP/2 client says first
PATIENCE = 10.0  # seconds for a handshake, and then for a call that is welcome
MOST = 256  # connections at a time
EARLY = 1 << 20  # bytes that a stranger may say
CHUNK = 1 << 18


@dataclass(eq=False)
class Visitor:
    """Who is at the other end of a connection: its address, and the names in its certificate, if it has shown one."""

    address: str
    names: frozenset[str] | None = None
    welcome: asyncio.Event = field(default_factory=asyncio.Event)
    said: int = 0  # bytes
    task: asyncio.Task[None] | None = None


class Door:
    """Listens, asks, passes on. `refuse` is called with the address and the reason of every refusal."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, refuse: Callable[[str, str], None]
    ) -> None:
        self.context, self.refuse = context, refuse
        self.listener = socket.create_server((host, port), family=_family(host))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.inner = 0  # the port of the server behind the door
        self.visitors: dict[int, Visitor] = {}  # by the port from which the door talks to the server
        self.sent = self.received = 0  # bytes that left and came, without what TLS adds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)

    def open(self, inner: int) -> None:
        """Let visitors in, to the server on a port of loopback."""
        self.inner = inner
        self._thread.start()

    def close(self) -> None:
        """Let nobody in any more, and end what is open."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
        else:  # nobody was ever let in
            self._loop.close()
        self.listener.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._accept())
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        self._loop.close()

    def welcome(self, visitor: Visitor) -> None:
        """The server has admitted a call: who has made it is no stranger any more. Called by the server's threads."""
        if not visitor.welcome.is_set():
            self._loop.call_soon_threadsafe(visitor.welcome.set)

    async def _accept(self) -> None:
        present: dict[Visitor, None] = {}  # in the order in which they came
        while True:
            try:
                connection, peer = await self._loop.sock_accept(self.listener)
            except OSError as error:  # too many open files
                self.refuse("", f"accepting failed: {error}")
                await asyncio.sleep(0.1)
                continue
            if len(present) >= MOST and not self._make_room(present):
                self.refuse(_text(peer), f"{MOST} connections are open")
                connection.close()
                continue
            visitor = Visitor(_text(peer))
            present[visitor] = None
            visitor.task = self._loop.create_task(self._serve(connection, visitor))
            visitor.task.add_done_callback(partial(_forget, present, visitor))

    def _make_room(self, present: dict[Visitor, None]) -> bool:
        """Send away the stranger who has been here for longest; False if there is none."""
        for visitor in present:
            if not visitor.welcome.is_set() and visitor.task is not None:
                self.refuse(visitor.address, f"{MOST} connections are open, and it was the oldest that nobody knows")
                present.pop(visitor)
                visitor.task.cancel()
                return True
        return False

    async def _serve(self, connection: socket.socket, visitor: Visitor) -> None:
        try:
            reader, writer, first = await asyncio.wait_for(self._welcome(connection), PATIENCE)
        except (OSError, ssl.SSLError, EOFError, ValueError, TimeoutError) as error:
            connection.close()
            self.refuse(visitor.address, _reason(error))
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        if certificate := writer.get_extra_info("peercert"):
            visitor.names = names_in(certificate)
        try:
            await self._relay(reader, writer, first, visitor)
        except TimeoutError:
            self.refuse(visitor.address, f"it made no call that is welcome in {PATIENCE:g} seconds")
        except OSError:
            pass
        finally:
            writer.close()

    async def _welcome(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """The handshake, and the first bytes."""
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = asyncio.StreamReader(CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        options: dict[str, Any] = {} if self.context is None else {"ssl": self.context}
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection, **options)
        try:
            first = await reader.readexactly(len(PREFACE))
            if first != PREFACE:
                raise ValueError("it does not speak HTTP/2")
        except BaseException:
            transport.abort()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop), first

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes, visitor: Visitor
    ) -> None:
        """Pass bytes on, both ways, until one end closes."""
        inside, out = await asyncio.open_connection("127.0.0.1", self.inner, limit=CHUNK)
        port = out.get_extra_info("sockname")[1]
        self.visitors[port] = visitor
        tasks: list[asyncio.Task[Any]] = []
        try:
            out.write(first)
            ways = [
                self._loop.create_task(self._pass(reader, out, visitor)),
                self._loop.create_task(self._pass(inside, writer)),
            ]
            known = self._loop.create_task(asyncio.wait_for(visitor.welcome.wait(), PATIENCE))
            tasks = [*ways, known]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if known in done:
                known.result()
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # that somebody went away is nothing to be told
            del self.visitors[port]
            out.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visitor: Visitor | None = None
    ) -> None:
        """Pass bytes on; those of a stranger stop after a while, and go on when he is welcome."""
        while data := await reader.read(CHUNK):
            if visitor is None:
                self.sent += len(data)
            else:
                self.received += len(data)
                visitor.said += len(data)
                if visitor.said > EARLY and not visitor.welcome.is_set():
                    await visitor.welcome.wait()
            writer.write(data)
            await writer.drain()


def _forget(present: dict[Visitor, None], visitor: Visitor, _: Any) -> None:
    present.pop(visitor, None)


def names_in(certificate: Any) -> frozenset[str]:
    """The names that a certificate speaks for: those of its subjectAltName, and its common name."""
    found = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    found |= {value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"}
    return frozenset(found)


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return f"it said nothing for {PATIENCE:g} seconds"
    return "it went away at once" if isinstance(error, EOFError | ConnectionError) else str(error)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _text(peer: Any) -> str:
    return f"{peer[0]}:{peer[1]}"
