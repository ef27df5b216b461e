"""The other of two applications that share a store."""

from andon import Andon

app = Andon()


@app.task(name="mail.send")
async def send(to: int) -> str:
    return f"sent to {to}"
