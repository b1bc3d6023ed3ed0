"""The timed loop against a clock that only moves when something is made to take time."""

from skymark.measure.loop import timed_pass


class Bench:
    """A loader, a consumer and a clock whose every duration is known, in ns."""

    def __init__(self, waits, ready_ns=0, copy_ns=0):
        self.now, self.waits = 1_000, waits
        self.ready_ns, self.copy_ns = ready_ns, copy_ns

    def start(self):
        for number, wait in enumerate(self.waits):
            self.now += wait
            yield {"index": [number]}

    def ready(self, batch):
        self.now += self.ready_ns

    def copy(self, batch):
        self.now += self.copy_ns
        return dict(batch)

    def sleep(self, seconds):
        self.now += round(seconds * 1e9)

    def run(self, **options):
        return timed_pass(
            self.start, clock=lambda: self.now, sleep=self.sleep, copy=self.copy, **options
        )


def test_each_wait_is_the_time_from_asking_to_having_the_batch():
    done = Bench([500, 20, 30]).run()
    assert (done.wait_ns, done.wall_ns, done.complete) == ([500, 20, 30], 550, True)
    assert done.indices == [[0], [1], [2]]


def test_a_batch_counts_from_when_it_is_ready():
    bench = Bench([10, 20], ready_ns=7)
    assert bench.run(ready=bench.ready).wait_ns == [17, 27]


def test_think_time_is_no_wait_but_is_in_the_wall_time():
    done = Bench([10, 20, 30]).run(think_ns=1_000)
    assert (done.wait_ns, done.think_ns, done.wall_ns) == ([10, 20, 30], 3_000, 3_060)


def test_keeping_a_batch_is_in_no_figure():
    done = Bench([10, 20, 30], copy_ns=400).run(keep=(0, 2))
    assert (done.wait_ns, done.wall_ns) == ([10, 20, 30], 60)
    assert done.kept == {0: {"index": [0]}, 2: {"index": [2]}}


def test_keeping_and_thinking_together_leave_the_waits_alone():
    done = Bench([10, 20, 30], copy_ns=400).run(keep=(1,), think_ns=1_000)
    assert (done.wait_ns, done.think_ns, done.wall_ns) == ([10, 20, 30], 3_000, 3_060)


def test_a_pass_stops_after_the_batch_that_crosses_its_time():
    done = Bench([10, 20, 30, 40]).run(stop_after_ns=25)
    assert (done.wait_ns, done.complete) == ([10, 20], False)


def test_a_pass_that_stops_before_what_is_to_be_kept_keeps_its_last_batch():
    done = Bench([100, 100, 100, 100], copy_ns=1000).run(keep=[3], stop_after_ns=150)
    assert list(done.kept) == [1]
    assert (done.complete, done.wait_ns, done.wall_ns) == (False, [100, 100], 200)
    assert list(Bench([100, 100, 100]).run(keep=[0, 2], stop_after_ns=150).kept) == [0]
    assert not Bench([100, 100, 100]).run(stop_after_ns=150).kept


def test_an_empty_pass_has_no_wait():
    done = Bench([]).run()
    assert (done.wait_ns, done.indices, done.complete) == ([], [], True)
