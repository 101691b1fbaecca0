"""Calls another model as CALL says, and tells what it was answered; with "pass" an error is passed on."""

import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def request_of(call):
    types = {"INT32": np.int32, "FP32": np.float32, "INT64": np.int64, "BYTES": np.object_}
    inputs = [
        pb_utils.Tensor(name, np.array(values, types[datatype]).reshape(shape))
        for name, (datatype, shape, values) in call["inputs"].items()
    ]
    names = {"model_name": call["model"], "requested_output_names": call["outputs"], "inputs": inputs}
    return pb_utils.InferenceRequest(**names, **call.get("given", {}))


def told(response):
    if response.has_error():
        return ["error", int(response.error().code())]
    tensors = response.output_tensors()
    return [[each.name(), str(each.as_numpy().dtype), str(each.as_numpy().tolist())] for each in tensors]


class TritonPythonModel:
    def execute(self, requests):
        return [
            self.answer(json.loads(pb_utils.get_input_tensor_by_name(each, "CALL").as_numpy()[0])) for each in requests
        ]

    def answer(self, call):
        try:
            said = self.said(call)
        except pb_utils.TritonModelException as error:
            if call.get("pass"):
                raise
            said = [type(error).__name__]
        if isinstance(said, pb_utils.TritonError):
            return pb_utils.InferenceResponse(error=said)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SAID", np.array([json.dumps(said)], np.object_))])

    def said(self, call):
        if "do" in call:
            return getattr(pb_utils, call["do"])(**call["with"])
        if call.get("decoupled"):
            return [told(each) for each in request_of(call).exec(decoupled=True)]
        if call.get("times"):
            return self.side_by_side(call)
        response = request_of(call).exec()
        if call.get("pass") and response.has_error():
            return response.error()
        return told(response)

    @staticmethod
    def side_by_side(call):
        async def run():
            return await asyncio.gather(*(request_of(call).async_exec() for _ in range(call["times"])))

        return [told(each) for each in asyncio.run(run())]
