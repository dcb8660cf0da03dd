from rpython.rlib import rgc
class A(object):
    def __init__(self, n): self.next = n; self.v = 1
def entry_point(argv):
    head = None
    for i in range(100000):
        head = A(head)
        if i % 10000 == 0: rgc.collect()
    n = 0
    while head: n += head.v; head = head.next
    print n
    return 0
def target(driver, args): return entry_point, None
