"""APScheduler 3 with its jobs in Redis. It runs them itself, and has no groups."""

import sys
from urllib.parse import urlsplit

from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

from bearing_sides import shape

groups = None
worker = None


def scheduler() -> list[str]:
    return [sys.executable, "-m", "bearing_sides.apscheduler"]


def main() -> None:
    where = urlsplit(shape.URL)
    store = RedisJobStore(host=where.hostname, port=where.port)
    plan = BlockingScheduler(jobstores={"default": store}, timezone="UTC")
    # Missed occurrences run later, one run each, and a restart keeps the job there is.
    rules = {"misfire_grace_time": 3600, "coalesce": False, "max_instances": 100}
    if not store.redis.exists(store.jobs_key):
        plan.add_job("bearing_sides.shape:tick", "interval", seconds=1, id="tick", **rules)
    plan.start()


if __name__ == "__main__":
    main()
