"""A server of Wyoming's events on loopback, with a limit on everything that a client can send.

https://github.com/OHF-Voice/wyoming: an event is a line of JSON, then its data, then its payload.
"""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Awaitable, Callable

# Calls that need the service at the same moment. A service of one process is late for more anyway.
CLIENTS_MAX = 16
# A header or its data: a list of names or a sentence at most.
JSON_BYTES_MAX = 1 << 16
# offhook sends a second of audio at a time.
PAYLOAD_BYTES_MAX = 1 << 20
# A client that sends or takes nothing for so long is gone. Turns arrive as they are spoken.
SILENT_SECONDS_MAX = 60


class Refused(Exception):
    """A request that is not kept to the protocol or its limits; a sentence and a code for the client."""

    def __init__(self, text: str, code: str):
        super().__init__(text)
        self.code = code


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def read(self) -> tuple[str, dict[str, Any], bytes] | None:
        """Kind, data and payload of the next event; None when the client has closed the connection."""
        try:
            line = await asyncio.wait_for(self.reader.readline(), SILENT_SECONDS_MAX)
            if not line:
                return None
            event = json.loads(line)
            data, payload = event.get("data") or {}, b""
            if length := event.get("data_length"):
                data |= json.loads(await self.exactly(length, JSON_BYTES_MAX))
            if length := event.get("payload_length"):
                payload = await self.exactly(length, PAYLOAD_BYTES_MAX)
            return str(event["type"]), dict(data), payload
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Refused("that is not an event of Wyoming", "no_event") from error

    async def exactly(self, length: int, most: int) -> bytes:
        if length > most:
            raise Refused(f"more than {most} bytes at a time", "too_large")
        return await asyncio.wait_for(self.reader.readexactly(length), SILENT_SECONDS_MAX)

    async def send(self, kind: str, data: dict[str, Any], payload: bytes = b"") -> None:
        body = json.dumps(data).encode()
        header = {"type": kind, "data_length": len(body), "payload_length": len(payload)}
        self.writer.write(json.dumps(header).encode() + b"\n" + body + payload)
        await asyncio.wait_for(self.writer.drain(), SILENT_SECONDS_MAX)


class Server:
    """Serves clients, and has its work done by so many threads; what is more waits in the order in which it came."""

    def __init__(self, info: dict[str, Any], workers: int):
        self.info = info
        self.clients = 0
        self.workers = ThreadPoolExecutor(workers)

    async def request(self, client: Client, kind: str, data: dict[str, Any], payload: bytes) -> None:
        """Does what an event asks for."""
        raise NotImplementedError

    def session(self) -> Callable[[Client, str, dict[str, Any], bytes], Awaitable[None]]:
        """What handles the events of one connection."""
        return self.request

    async def work(self, client: Client, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns. A client that goes meanwhile, because its caller speaks on, does not keep others waiting."""
        done = asyncio.get_running_loop().run_in_executor(self.workers, function, *arguments)
        gone = asyncio.ensure_future(client.reader.read(1))
        try:
            await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise ConnectionResetError("the client has gone, or speaks while it is answered")
            return done.result()
        finally:
            # Work that has not begun is not begun.
            done.cancel()
            gone.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one client until it closes the connection."""
        client = Client(reader, writer)
        self.clients += 1
        try:
            if self.clients > CLIENTS_MAX:
                raise Refused(f"{CLIENTS_MAX} clients are served already", "busy")
            handle = self.session()
            while event := await client.read():
                if event[0] == "describe":
                    await client.send("info", self.info)
                else:
                    await handle(client, *event)
        except Refused as refused:
            await self.refuse(client, refused)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            # It has gone.
            pass
        except Exception as error:  # noqa: BLE001
            # Its kind alone: what was said does not belong in a log.
            print(f"a request failed: {type(error).__name__}", file=sys.stderr, flush=True)
            await self.refuse(client, Refused("the request failed", "failed"))
        finally:
            self.clients -= 1
            writer.close()

    async def refuse(self, client: Client, refused: Refused) -> None:
        try:
            await client.send("error", {"text": str(refused), "code": refused.code})
        except (OSError, asyncio.TimeoutError):
            pass

    def run(self, name: str, port: int) -> None:
        """Until the process is ended. Wyoming has neither encryption nor passwords: it is for this machine alone."""

        async def forever() -> None:
            listening = await asyncio.start_server(self.serve, "127.0.0.1", port, limit=JSON_BYTES_MAX)
            print(f"{name} answers on 127.0.0.1:{port}", file=sys.stderr, flush=True)
            await listening.serve_forever()

        try:
            asyncio.run(forever())
        except KeyboardInterrupt:
            pass


def described(name: str, made_by: str, url: str) -> dict[str, Any]:
    """What Wyoming's `info` says of a program or a model."""
    attribution = {"name": made_by, "url": url}
    return {"name": name, "description": name, "attribution": attribution, "installed": True, "version": None}
