"""The messages of the protocol as classes, made from urlfrontier.binpb, which `make proto` writes.

The file also has those of the services for health and reflection. Reflection is served in two versions, whose messages
are the same.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "urlfrontier.URLFrontier"
HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""The packages of the service ServerReflection."""

# a pool of its own: a client in the same process may have another file of this name in the usual pool
POOL = descriptor_pool.DescriptorPool()


def _read() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(
        (resources.files("webcrawl.urlfrontier") / "urlfrontier.binpb").read_bytes()
    )
    stable, alpha = REFLECTIONS
    for file in files.file:
        POOL.AddSerializedFile(file.SerializeToString())
        if file.package == stable:
            file.name, file.package = "reflection_alpha.proto", alpha
            for field in (field for message in file.message_type for field in message.field):
                if field.type_name:
                    field.type_name = field.type_name.replace(stable, alpha)
            for method in file.service[0].method:
                method.input_type = method.input_type.replace(stable, alpha)
                method.output_type = method.output_type.replace(stable, alpha)
            POOL.AddSerializedFile(file.SerializeToString())


def message_class(name: str) -> Any:
    """Returns the class of a message, whose name has its package."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def _message(name: str) -> Any:
    return message_class(f"urlfrontier.{name}")


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
HealthRequest = message_class("grpc.health.v1.HealthCheckRequest")
HealthResponse = message_class("grpc.health.v1.HealthCheckResponse")
HealthList = message_class("grpc.health.v1.HealthListResponse")

LEVELS = _message("LogLevelParams").Level


def function_name(method: str) -> str:
    """Returns the name of the function for a method: get_url_status for GetURLStatus."""
    words = method.replace("URLs", "Urls").replace("URL", "Url")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower()
