"""A node of Ray of its own with one application: ray_app.py HOST HTTP-PORT METRICS-PORT FOLDER LOADING-SECONDS

`/work?seconds=0.1` answers after so long, `/stream?count=20&pause=0.05` sends so many events; anything else is
answered at once."""

import asyncio
import signal
import sys

import ray
from ray import serve
from starlette.responses import PlainTextResponse, StreamingResponse


@serve.deployment(num_replicas=1, max_ongoing_requests=4, ray_actor_options={"num_cpus": 0.1})
class Application:
    def __init__(self, loading_seconds):
        import time  # pylint: disable=import-outside-toplevel
        time.sleep(loading_seconds)

    async def __call__(self, request):
        asked = request.query_params
        if request.url.path.endswith("/stream"):
            return StreamingResponse(self.events(int(asked["count"]), float(asked["pause"])),
                                     media_type="text/event-stream")
        await asyncio.sleep(float(asked.get("seconds", "0")))
        return PlainTextResponse("done")

    async def events(self, count, pause):
        for number in range(count):
            yield f"data: {number}\n\n"
            await asyncio.sleep(pause)
        yield "data: [DONE]\n\n"


def main(host, http_port, metrics_port, folder, loading_seconds):
    ray.init(address="local", num_cpus=2, include_dashboard=False, _node_ip_address=host, _temp_dir=folder,
             _metrics_export_port=int(metrics_port), object_store_memory=80 * 1024 * 1024)
    serve.start(http_options={"host": host, "port": int(http_port)}, proxy_location="HeadOnly")
    serve.run(Application.bind(float(loading_seconds)))
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
