"""A server whose requests are traced, and what its trace file says once it has stopped."""

import json

from charonia.api import Server

COMPUTED = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]
SERVED = ["REQUEST_START", "QUEUE_START", *COMPUTED, "INFER_RESPONSE_COMPLETE", "REQUEST_END"]
HTTP = ["HTTP_RECV_START", "HTTP_RECV_END", *SERVED, "HTTP_SEND_START", "HTTP_SEND_END"]
GRPC = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", *SERVED, "GRPC_SEND_START", "GRPC_SEND_END"]
INNER = ["REQUEST_START", "QUEUE_START", *COMPUTED, "REQUEST_END"]


class TracedRequest:
    """One number of a trace file: `names` of its stamps in the file's order, which is that of their times too."""

    def __init__(self, number):
        self.number = number
        self.names = []
        self.times = []
        self.tensors = []
        self.model = self.parent = self.id = None

    def take(self, record):
        for stamp in record.get("timestamps", ()):
            self.names.append(stamp["name"])
            self.times.append(stamp["ns"])
        if "activity" in record:
            tensor = record["tensor"]
            self.tensors.append((record["activity"], tensor["name"], tensor["data"], tensor["shape"], tensor["dtype"]))
        if "model_name" in record:
            self.model, self.id, self.parent = record["model_name"], record.get("request_id"), record.get("parent_id")


class Traced:
    """Stopped by `requests`, which gives the traced requests of its file by number."""

    def __init__(self, repository, file, *settings, **options):
        self.file = file
        config = (f"triton,file={file}", "level=TIMESTAMPS", "rate=1", *settings)
        ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
        self.server = Server(repository, **ports, trace_config=config, exit_timeout_secs=5, **options).start()

    def requests(self):
        self.server.stop()
        return read(self.file)


def read(file):
    found = {}
    for record in json.loads(file.read_text()) if file.exists() else ():
        found.setdefault(record["id"], TracedRequest(record["id"])).take(record)
    for request in found.values():
        assert request.times == sorted(request.times), (request.names, request.times)
    return found
