"""PyPI's `websockets` as a server that echoes; `websockets` is None where it is not installed."""

import asyncio
import contextlib
import threading

try:
    import websockets
except ImportError:
    websockets = None


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
