"""Sends the messages of rows by the stubs of the public client, and takes the answers apart."""

from typing import Any

import grpc
from google.protobuf import text_format
from google.protobuf.message import Message
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.facts.rows import Answer
from tests.models.gated import PATIENCE_S

_TIMES = {"ns", "last_inference"}


class Grpc:
    """A channel to a server."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def ask(self, request: dict[str, Any]) -> Answer:
        if request["grpc"].startswith("/"):
            return self._ask_bytes(request)
        method = getattr(self.stub, request["grpc"])
        options = {
            "metadata": [tuple(pair) for pair in request.get("metadata", ())],
            "timeout": request.get("timeout", PATIENCE_S),
        }
        if "messages" in request:
            return _stream(method, [_parse("ModelInferRequest", text) for text in request["messages"]], options)
        message = _parse(f"{request['grpc']}Request", request.get("message", ""))
        try:
            return {"code": "OK", "answer": _text(method(message, **options))}
        except grpc.RpcError as error:
            return _refusal(error)

    def _ask_bytes(self, request: dict[str, Any]) -> Answer:
        """Of a call by its path, with bytes: the code, and the first answer's bytes."""
        call = self.channel.unary_stream(request["grpc"])(
            request.get("bytes", "").encode("latin-1"), timeout=PATIENCE_S
        )
        try:
            return {"code": "OK", "bytes": next(call, b"").decode("latin-1")}
        except grpc.RpcError as error:
            return _refusal(error)
        finally:
            call.cancel()

    def close(self) -> None:
        self.channel.close()


def _stream(method: Any, messages: list[Message], options: dict[str, Any]) -> Answer:
    answers, errors = [], []
    found: Answer = {"code": "OK"}
    try:
        for each in method(iter(messages), **options):
            if each.error_message:
                errors.append(each.error_message)
            answers.append(_text(each.infer_response))
    except grpc.RpcError as error:
        found = _refusal(error)
    return {**found, "answers": answers, "errors": errors}


def _parse(name: str, text: str) -> Message:
    return text_format.Parse(text, getattr(service_pb2, name)())


def _refusal(error: grpc.RpcError) -> Answer:
    return {"code": error.code().name, "error": error.details() or ""}


def _text(message: Message) -> str:
    _mask(message)
    return text_format.MessageToString(message, as_one_line=True)


def _mask(message: Message) -> None:
    """Take out what differs from run to run, and sentences."""
    for field, value in message.ListFields():
        if field.name in _TIMES:
            message.ClearField(field.name)
        elif field.name == "reason" and value != "unloaded":
            setattr(message, field.name, "…")
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in [value] if isinstance(value, Message) else value:
                _mask(each)
