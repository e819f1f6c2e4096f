"""An S3-compatible server in this process, on loopback and a port of its own: moto's."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

SECRETS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass
class S3Server:
    host: str  # with port
    client: Any
    bucket: str
    process: Any

    def url(self, prefix: str) -> str:
        """As Triton writes it."""
        return f"s3://{self.host}/{self.bucket}/{prefix}"

    def put(self, key: str, content: bytes = b"") -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def upload(self, directory: Path, prefix: str) -> None:
        """Every file below `directory`, as keys below `prefix`."""
        for path in directory.rglob("*"):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(directory)}", path.read_bytes())

    def delete(self, prefix: str) -> None:
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        for entry in found.get("Contents", []):
            self.client.delete_object(Bucket=self.bucket, Key=entry["Key"])

    def stop(self) -> None:
        self.process.stop()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    # All servers of one process share their buckets.
    bucket = f"models-{secrets.token_hex(4)}"
    process = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    process.start()
    host, port = process.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id=SECRETS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=SECRETS["AWS_SECRET_ACCESS_KEY"],
        region_name=SECRETS["AWS_DEFAULT_REGION"],
    )
    client.create_bucket(Bucket=bucket)
    try:
        yield S3Server(f"{host}:{port}", client, bucket, process)
    finally:
        client.close()
        process.stop()
