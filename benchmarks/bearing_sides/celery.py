"""Celery on Redis: chords, and beat. Tasks are acknowledged late, and handed out again soon."""

from celery import Celery, chord

from bearing_sides import shape

app = Celery("side", broker=shape.URL, backend=shape.URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": shape.SOON_S},
    beat_schedule={"tick": {"task": "tick", "schedule": 1.0}},
)


@app.task(name="member")
def member(group: int, number: int) -> int:
    shape.member(group, number)
    return number


@app.task(name="closing")
def closing(numbers: list[int], group: int) -> None:
    shape.line("closing", group)


@app.task(name="tick")
def tick() -> None:
    shape.tick()


def groups(count: int) -> None:
    for group in range(count):
        chord([member.s(group, number) for number in range(shape.MEMBERS)])(closing.s(group))


def worker() -> list[str]:
    pool = ["-P", "prefork", "-c", str(shape.AT_ONCE), "-l", "WARNING"]
    return [shape.program("celery"), "-A", "bearing_sides.celery", "worker", *pool]


def scheduler() -> list[str]:
    kept = ["-s", f"{shape.FOLDER}/beat", "--pidfile=", "-l", "WARNING"]
    return [shape.program("celery"), "-A", "bearing_sides.celery", "beat", *kept]
