"""A model for TorchServe: waits as long as the request says (`seconds`), or sends `count` pieces, one each `pause`.
Its loading takes what the model's archive says."""

import json
import pathlib
import time

from ts.handler_utils.utils import send_intermediate_predict_response

loaded = False


def handle(data, context):
    global loaded  # pylint: disable=global-statement
    if not loaded:
        folder = pathlib.Path(context.system_properties["model_dir"])
        time.sleep(float((folder / "loading-seconds.txt").read_text()))
        loaded = True
    if data is None:
        return None
    answers = []
    for row in data:
        asked = row.get("body") or row.get("data") or {}
        if isinstance(asked, (bytes, bytearray)):
            asked = json.loads(asked)
        for number in range(int(asked.get("count", 0))):
            send_intermediate_predict_response([f"data: {number}\n\n"], context.request_ids, "OK", 200, context)
            time.sleep(asked["pause"])
        time.sleep(asked.get("seconds", 0))
        answers.append("done")
    return answers
