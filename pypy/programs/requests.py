"""The workload of the 2018 study (packages/lab/README.md): a server of 4 forked workers.

    requests WORKERS

The parent allocates 5 large objects and forks. A request allocates one more and drops the
third-last. A large object holds, for i from 0 to 1,599, a list of i references to one string,
and 40 strings each. Each byte on standard input is a request, taken by whichever worker reads
it; each answer is a dot on standard output. Before that, a line `worker PID` for each.
At the end of standard input all end.
"""
import os


class LargeObject(object):
    def __init__(self, seed):
        text = 'a string %d' % seed
        self.references = []
        self.strings = []
        for i in range(1600):
            self.references.append([text] * i)
            self.strings.append([str(seed * 64000 + i * 40 + j) for j in range(40)])


def serve(objects):
    while True:
        request = os.read(0, 1)
        if len(request) == 0:
            break
        objects.append(LargeObject(ord(request[0]) + len(objects)))
        del objects[len(objects) - 3]
        os.write(1, '.')


def entry_point(argv):
    objects = [LargeObject(seed) for seed in range(5)]
    workers = []
    for _ in range(int(argv[1])):
        pid = os.fork()
        if pid == 0:
            serve(objects)
            os._exit(0)
        workers.append(pid)
        os.write(1, 'worker %d\n' % pid)
    for pid in workers:
        os.waitpid(pid, 0)
    return 0
