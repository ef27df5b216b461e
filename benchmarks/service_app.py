"""What the service's benchmark serves: an application, and the framework's empty routes.

python benchmarks/service_app.py PORT      the empty routes alone, on the same server

`GET /empty` takes nothing; `POST /empty` takes the body of a submit, decoded and checked by the
framework, and does nothing with it.
"""

import sys

import msgspec

from andon import Andon

app = Andon()


@app.task(name="noop")
async def noop(number: int) -> None: ...


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """What the load generator submits."""

    name: str
    args: list[int]
    queue: str


def main() -> None:
    import uvicorn
    from litestar import Litestar, get, post

    @get("/empty")
    async def empty() -> dict[str, str]:
        return {}

    @post("/empty", status_code=201)
    async def takes(data: Body) -> dict[str, str]:
        return {}

    framework = Litestar([empty, takes], logging_config=None, openapi_config=None)
    uvicorn.run(
        framework,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
