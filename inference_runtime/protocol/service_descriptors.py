"""What gRPC clients can ask for besides inference: the health and reflection services, described.

Both are made here from their published definitions, in a pool of their own: a client's copy of the
same messages may live in this process.
"""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

_INT32: Final = FieldDescriptorProto.TYPE_INT32
_STRING: Final = FieldDescriptorProto.TYPE_STRING
_BYTES: Final = FieldDescriptorProto.TYPE_BYTES
HEALTH_SERVICE: Final = "grpc.health.v1.Health"
REFLECTION_PACKAGES: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")

# Name, number, a scalar's type or a message's name, and "repeated" or the oneof it is in.
_Field = tuple[str, int, Any, str]

_REFLECTION: Final[dict[str, list[_Field]]] = {
    "ServerReflectionRequest": [
        ("host", 1, _STRING, ""),
        ("file_by_filename", 3, _STRING, "message_request"),
        ("file_containing_symbol", 4, _STRING, "message_request"),
        ("file_containing_extension", 5, "ExtensionRequest", "message_request"),
        ("all_extension_numbers_of_type", 6, _STRING, "message_request"),
        ("list_services", 7, _STRING, "message_request"),
    ],
    "ExtensionRequest": [("containing_type", 1, _STRING, ""), ("extension_number", 2, _INT32, "")],
    "ServerReflectionResponse": [
        ("valid_host", 1, _STRING, ""),
        ("original_request", 2, "ServerReflectionRequest", ""),
        ("file_descriptor_response", 4, "FileDescriptorResponse", "message_response"),
        ("all_extension_numbers_response", 5, "ExtensionNumberResponse", "message_response"),
        ("list_services_response", 6, "ListServiceResponse", "message_response"),
        ("error_response", 7, "ErrorResponse", "message_response"),
    ],
    "FileDescriptorResponse": [("file_descriptor_proto", 1, _BYTES, "repeated")],
    "ExtensionNumberResponse": [
        ("base_type_name", 1, _STRING, ""),
        ("extension_number", 2, _INT32, "repeated"),
    ],
    "ListServiceResponse": [("service", 1, "ServiceResponse", "repeated")],
    "ServiceResponse": [("name", 1, _STRING, "")],
    "ErrorResponse": [("error_code", 1, _INT32, ""), ("error_message", 2, _STRING, "")],
}


def health_file() -> FileDescriptorProto:
    """grpc/health/v1/health.proto, of which we serve `Check`."""
    file = FileDescriptorProto(
        name="grpc/health/v1/health.proto", package="grpc.health.v1", syntax="proto3"
    )
    _add_message(file, "HealthCheckRequest", [("service", 1, _STRING, "")])
    response = file.message_type.add(name="HealthCheckResponse")
    statuses = response.enum_type.add(name="ServingStatus")
    for number, name in enumerate(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")):
        statuses.value.add(name=name, number=number)
    response.field.add(
        name="status",
        number=1,
        type=FieldDescriptorProto.TYPE_ENUM,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type_name=f".{file.package}.HealthCheckResponse.ServingStatus",
    )
    service = file.service.add(name="Health")
    for name, streams in (("Check", False), ("Watch", True)):
        service.method.add(
            name=name,
            input_type=f".{file.package}.HealthCheckRequest",
            output_type=f".{file.package}.HealthCheckResponse",
            server_streaming=streams,
        )
    return file


def reflection_file(package: str) -> FileDescriptorProto:
    """grpc/reflection/…/reflection.proto; its two versions differ in their package only."""
    path = package.replace(".", "/")
    file = FileDescriptorProto(name=f"{path}/reflection.proto", package=package, syntax="proto3")
    for name, fields in _REFLECTION.items():
        _add_message(file, name, fields)
    file.service.add(name="ServerReflection").method.add(
        name="ServerReflectionInfo",
        input_type=f".{package}.ServerReflectionRequest",
        output_type=f".{package}.ServerReflectionResponse",
        client_streaming=True,
        server_streaming=True,
    )
    return file


def message_classes(file: FileDescriptorProto) -> dict[str, type[Message]]:
    """Of the file's messages, by name."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{message.name}")
        )
        for message in file.message_type
    }


def _add_message(file: FileDescriptorProto, name: str, fields: Sequence[_Field]) -> None:
    message = file.message_type.add(name=name)
    choices = list(dict.fromkeys(how for *_, how in fields if how not in ("", "repeated")))
    for choice in choices:
        message.oneof_decl.add(name=choice)
    for field_name, number, kind, how in fields:
        field = message.field.add(name=field_name, number=number)
        field.label = (
            FieldDescriptorProto.LABEL_REPEATED
            if how == "repeated"
            else FieldDescriptorProto.LABEL_OPTIONAL
        )
        if isinstance(kind, str):
            field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".{file.package}.{kind}"
        else:
            field.type = kind
        if how in choices:
            field.oneof_index = choices.index(how)
