"""The zoo in jobs of queues; `python -m zoo_jobs ENGINE JOBS` puts that number into the queue."""

import os
import sys
import time

ENGINE = os.environ["ZOO_ENGINE"]
URL = os.environ.get("ZOO_BROKER", "")


def work():
    import zoo

    pid = zoo.write()
    time.sleep(0.2)  # the next job is another process's
    return pid


if ENGINE == "celery":
    import celery

    app = celery.Celery("zoo_jobs", broker=URL, broker_connection_retry_on_startup=True)
    app.conf.worker_prefetch_multiplier = 1
    import zoo

    put = app.task(name="zoo.work")(work).delay
elif ENGINE == "huey":
    from huey import RedisHuey
    from huey.serializer import Serializer

    huey = RedisHuey("zoo", url=URL, serializer=Serializer())
    import zoo

    put = huey.task()(work)
elif ENGINE == "dramatiq":
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    dramatiq.set_broker(RedisBroker(url=URL))
    import zoo

    put = dramatiq.actor(work).send
elif ENGINE == "rq":
    import redis
    import rq

    if __name__ != "__main__":
        import zoo  # noqa: F401

    def put():
        return rq.Queue(connection=redis.Redis.from_url(URL)).enqueue("zoo_jobs.work")


if __name__ == "__main__":
    import zoo_jobs

    for _ in range(int(sys.argv[1])):
        zoo_jobs.put()
