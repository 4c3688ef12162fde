"""The service by which tools such as grpcurl ask for services and messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from webcrawl.urlfrontier.calls import GrpcStatus
from webcrawl.urlfrontier.messages import POOL, message_class


class Reflection:
    """Answers ServerReflection of a package, in one of its versions. The messages here have no extensions."""

    def __init__(self, package: str, services: Sequence[str]) -> None:
        self._response = message_class(f"{package}.ServerReflectionResponse")
        self._services = services

    async def server_reflection_info(self, requests: AsyncIterator[list[Any]]) -> AsyncGenerator[list[Any]]:
        async for messages in requests:
            for message in messages:
                yield [self._answer(message)]  # an answer may have a hundred times the bytes of its request

    def _answer(self, request: Any) -> Any:
        answer = self._response(valid_host=request.host)
        answer.original_request.CopyFrom(request)
        kind = request.WhichOneof("message_request")
        try:
            if kind == "list_services":
                for name in self._services:
                    answer.list_services_response.service.add(name=name)
            elif kind == "file_by_filename":
                self._add(answer, POOL.FindFileByName(request.file_by_filename))
            elif kind == "file_containing_symbol":
                self._add(answer, POOL.FindFileContainingSymbol(request.file_containing_symbol))
            elif kind == "all_extension_numbers_of_type":
                name = request.all_extension_numbers_of_type
                answer.all_extension_numbers_response.base_type_name = POOL.FindMessageTypeByName(
                    name
                ).full_name
            else:
                raise KeyError(kind)
        except KeyError:
            status = GrpcStatus.NOT_FOUND if kind else GrpcStatus.INVALID_ARGUMENT
            answer.error_response.error_code = status
            answer.error_response.error_message = "not found" if kind else "the request asks for nothing"
        return answer

    @staticmethod
    def _add(answer: Any, file: FileDescriptor) -> None:
        described = FileDescriptorProto()
        file.CopyToProto(described)
        answer.file_descriptor_response.file_descriptor_proto.append(described.SerializeToString())
