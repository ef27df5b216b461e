"""An S3 server in this process, for tests of what is kept in an object store."""

import contextlib
import os
from collections.abc import Iterator
from unittest import mock

BUCKET = "left-behind"


@contextlib.contextmanager
def bucket_url() -> Iterator[str]:
    """The URL of a place in a bucket of its own server, which keys in the environment open."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        with mock.patch.dict(os.environ, keys):
            import boto3

            endpoint = f"http://{host}:{port}"
            boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint).create_bucket(
                Bucket=BUCKET
            )
            yield f"s3://{BUCKET}/kept?region=us-east-1&endpoint={endpoint}&allow_http=true"
    finally:
        server.stop()
