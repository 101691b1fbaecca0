"""Does what SCRIPT says, word by word, with the sender of its response, and keeps the last error that a word raised.

A number is sent as OUT; a word with `.` behind it is sent with the final flag, and `.` alone is the flag alone.
"""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.last = "nothing"

    def execute(self, requests):
        for request in requests:
            words = [word.decode() for word in pb_utils.get_input_tensor_by_name(request, "SCRIPT").as_numpy().ravel()]
            if words[:1] == ["raise"]:
                raise ValueError("raised before anything was sent")
            if words[:1] == ["return"]:
                return [self.response("1") for _ in requests]
            sender = request.get_response_sender()
            if words[:1] == ["later"]:
                threading.Thread(target=self.play, args=(words[1:], sender)).start()
            else:
                self.play(words, sender)
            if words[-1:] == ["raise"]:
                raise ValueError("raised at the end")
        return None

    def play(self, words, sender):
        for word in words:
            if word == "raise":
                return
            try:
                self.send(word.rstrip("."), sender, FINAL if word.endswith(".") else 0)
            except Exception as error:
                self.last = f"{type(error).__name__}"

    def send(self, word, sender, flags):
        if word == "cancelled":
            self.last = str(sender.is_cancelled())
        elif word:
            sender.send(self.response(word), flags)
        else:
            sender.send(flags=flags)

    def response(self, word):
        if word.isdigit():
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([int(word)], np.int32))])
        return getattr(self, f"response_{word}")()

    def response_last(self):
        return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([self.last], np.object_))])

    def response_error(self):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("as the script says"))

    def response_unavailable(self):
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("not now", pb_utils.TritonError.UNAVAILABLE))

    def response_empty(self):
        return pb_utils.InferenceResponse([])

    def response_both(self):
        outputs = [pb_utils.Tensor("TEXT", np.array(["a", "é"], np.object_))]
        return pb_utils.InferenceResponse([*self.response("7").output_tensors(), *outputs])

    def response_unknown(self):
        return pb_utils.InferenceResponse([pb_utils.Tensor("NOPE", np.array([1], np.int32))])
