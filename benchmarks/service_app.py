"""What the service's benchmark serves: an application, and the framework's empty route.

python benchmarks/service_app.py PORT      the empty route alone, on the same server
"""

import sys

from andon import Andon

app = Andon()


@app.task(name="noop")
async def noop(number: int) -> None: ...


def main() -> None:
    import uvicorn
    from litestar import Litestar, get

    @get("/empty")
    async def empty() -> dict[str, str]:
        return {}

    framework = Litestar([empty], logging_config=None, openapi_config=None)
    uvicorn.run(
        framework,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
