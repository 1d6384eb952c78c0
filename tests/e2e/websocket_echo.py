"""Servers of WebSockets: PyPI's `websockets`, which is None where it is not installed, as one that echoes; and the handshake of
one that is scripted."""

import asyncio
import base64
import contextlib
import hashlib
import threading

try:
    import websockets
except ImportError:
    websockets = None

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


def switch(ask, *fields, accept=None, upgrade="websocket"):
    """Answers 101, with the accept that belongs to the key."""
    accept = accept or accept_of(ask.head.field("sec-websocket-key"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    ask.send(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {upgrade}\r\nConnection: Upgrade\r\n"
             f"Sec-WebSocket-Accept: {accept}\r\n{lines}\r\n".encode())


class EchoServer:
    """A WebSocket server on a loop of its own; `tls`: an ssl.SSLContext."""

    def __init__(self, tls=None):
        self._tls = tls
        self.closed = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._stop = self._loop.create_future()
        async with websockets.serve(self._echo, "127.0.0.1", 0, max_size=None, ssl=self._tls) as server:
            self.address = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop

    async def _echo(self, connection):
        if connection.request.path == "/speaks-first":
            await connection.send("I begin")
        if connection.request.path == "/leaves":
            return await connection.close(4000, "enough")
        with contextlib.suppress(websockets.exceptions.ConnectionClosed):
            async for message in connection:
                await connection.send(message)
        await connection.wait_closed()
        self.closed.append(connection.close_code)

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set_result, None)
        self._thread.join(20)
