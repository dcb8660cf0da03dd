"""A locustfile of a user's own: both of Locust's clients, a POST, a named group, a failure."""

from locust import FastHttpUser, HttpUser, constant, task


class Reader(HttpUser):
    wait_time = constant(0)

    @task
    def read(self):
        self.client.get("/?q=1", name="/?q=[any]")
        with self.client.get("/missing", catch_response=True) as response:
            response.success()


class Writer(FastHttpUser):
    wait_time = constant(0)

    @task
    def write(self):
        self.client.post("/sum", data={"a": 1})
