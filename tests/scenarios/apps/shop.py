"""One of two applications that share a store, in two versions."""

from andon import Andon

app = Andon()
newer = Andon()


@app.task(name="shop.charge")
async def charge(amount: int) -> str:
    return f"charged {amount}"


@newer.task(name="shop.charge", version=2)
async def charge_twice(amount: int) -> str:
    return f"charged {amount} twice"
