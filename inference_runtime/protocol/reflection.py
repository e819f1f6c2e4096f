"""Server reflection: which services there are, and the files that describe them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from inference_runtime.errors import InvalidArgument
from inference_runtime.protocol.service_descriptors import message_classes

_NOT_FOUND: Final = 5


class Reflection:
    """Answers of one version of the service, of which `package` and `own` are."""

    def __init__(self, own: FileDescriptorProto, files: Sequence[FileDescriptorProto]) -> None:
        self._files = {file.name: file for file in files}
        self._symbols = {symbol: file.name for file in files for symbol in _symbols(file)}
        self._services = sorted(
            f"{file.package}.{service.name}" for file in files for service in file.service
        )
        classes = message_classes(own)
        self._request: type[Any] = classes["ServerReflectionRequest"]
        self._response: type[Any] = classes["ServerReflectionResponse"]

    def answer(self, message: bytes) -> bytes:
        try:
            request = self._request.FromString(message)
        except DecodeError as error:
            raise InvalidArgument("failed to parse the ServerReflectionRequest message") from error
        response = self._response(valid_host=request.host, original_request=request)
        asked = request.WhichOneof("message_request")
        if asked == "list_services":
            for name in self._services:
                response.list_services_response.service.add(name=name)
        elif asked == "file_by_filename":
            self._add_files(response, request.file_by_filename)
        elif asked == "file_containing_symbol":
            self._add_files(response, self._symbols.get(request.file_containing_symbol, ""))
        elif asked == "all_extension_numbers_of_type":
            self._add_extensions(response, request.all_extension_numbers_of_type)
        else:
            _refuse(response, "there are no extensions")
        found: bytes = response.SerializeToString()
        return found

    def _add_files(self, response: Any, name: str) -> None:
        if name not in self._files:
            _refuse(response, "no such file or symbol")
            return
        for file in self._with_dependencies(name):
            response.file_descriptor_response.file_descriptor_proto.append(file.SerializeToString())

    def _with_dependencies(self, name: str) -> list[FileDescriptorProto]:
        found: dict[str, FileDescriptorProto] = {}
        wanted = [name]
        while wanted:
            file = self._files[wanted.pop()]
            if file.name not in found:
                found[file.name] = file
                wanted.extend(file.dependency)
        return list(found.values())

    def _add_extensions(self, response: Any, type_name: str) -> None:
        if type_name in self._symbols:
            response.all_extension_numbers_response.base_type_name = type_name
        else:
            _refuse(response, "no such type")


def _refuse(response: Any, text: str) -> None:
    response.error_response.error_code = _NOT_FOUND
    response.error_response.error_message = text


def _symbols(file: FileDescriptorProto) -> Iterator[str]:
    for service in file.service:
        name = f"{file.package}.{service.name}"
        yield name
        yield from (f"{name}.{method.name}" for method in service.method)
    yield from (f"{file.package}.{enum.name}" for enum in file.enum_type)
    yield from _message_symbols(file.package, file.message_type)


def _message_symbols(scope: str, messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        name = f"{scope}.{message.name}"
        yield name
        yield from (f"{name}.{enum.name}" for enum in message.enum_type)
        yield from _message_symbols(name, message.nested_type)


def describe(message: type[Message]) -> FileDescriptorProto:
    """The file that a generated message is defined in."""
    file = FileDescriptorProto()
    message.DESCRIPTOR.file.CopyToProto(file)
    return file
