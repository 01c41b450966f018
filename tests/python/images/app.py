import _thread, time


def rec(n):
    if n:
        return rec(n - 1)
    time.sleep(60)


class Klasse:
    def größe(self):
        return list(map(lambda x: sum(gen(x)), [3]))


def gen(n):
    for i in range(n):
        yield i
    yield from 𠮷()


def 𠮷():
    for i in 日本():
        yield i


def 日本():
    time.sleep(60)
    yield 1


_thread.start_new_thread(rec, (5,))
Klasse().größe()
