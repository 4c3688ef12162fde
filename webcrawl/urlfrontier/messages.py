"""The messages of the protocol as classes, made from urlfrontier.binpb, which `make proto` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

SERVICE = "urlfrontier.URLFrontier"

# a pool of its own: a client in the same process may have another file of this name in the usual pool
POOL = descriptor_pool.DescriptorPool()


def add_descriptors(serialized: bytes) -> None:
    """Adds a serialized FileDescriptorProto, so that clients can ask for it by reflection."""
    POOL.AddSerializedFile(serialized)


def _read() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(
        (resources.files("webcrawl.urlfrontier") / "urlfrontier.binpb").read_bytes()
    )
    for file in files.file:
        add_descriptors(file.SerializeToString())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"urlfrontier.{name}"))


_read()
AckMessage = _message("AckMessage")
BatchAck = _message("BatchAck")
Boolean = _message("Boolean")
Empty = _message("Empty")
GetCrawlStatsResponse = _message("GetCrawlStatsResponse")
Long = _message("Long")
QueueList = _message("QueueList")
Stats = _message("Stats")
StringList = _message("StringList")
URLInfo = _message("URLInfo")
URLItem = _message("URLItem")

OK, SKIPPED, FAIL = (AckMessage.Status.Value(name) for name in ("OK", "SKIPPED", "FAIL"))
LEVELS = _message("LogLevelParams").Level


def function_name(method: str) -> str:
    """Returns the name of the function for a method: get_url_status for GetURLStatus."""
    words = method.replace("URLs", "Urls").replace("URL", "Url")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower()


class Unreadable:
    """Stands for bytes that are not the message of a method, so that the service can refuse them."""


def _reader(message: Any) -> Callable[[bytes], Any]:
    # gRPC would log an error with a traceback, and answer that it is unknown
    def read(serialized: bytes) -> Any:
        try:
            return message.FromString(serialized)
        except DecodeError:
            return Unreadable()

    return read


def handlers(service: object) -> grpc.GenericRpcHandler:
    """Returns the handlers of all methods of the protocol; raises AttributeError if the service lacks one."""
    by_name = {}
    for method in POOL.FindServiceByName(SERVICE).methods:
        sides = (
            "stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming)
        )
        handler = getattr(grpc, f"{'_'.join(sides)}_rpc_method_handler")
        by_name[method.name] = handler(
            getattr(service, function_name(method.name)),
            request_deserializer=_reader(message_factory.GetMessageClass(method.input_type)),
            response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(SERVICE, by_name)
