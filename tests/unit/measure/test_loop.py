"""The timed loop against a clock that only moves when something is made to take time."""

import random

import numpy as np

from skymark.measure.consumer import Consumer, Sleeper
from skymark.measure.loop import Receiver, timed_pass


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
        return timed_pass(self.start, clock=lambda: self.now, copy=self.copy, **options)

    def sleeper(self, think_ns):
        return Sleeper(think_ns, lambda: self.now, self.sleep)


def test_each_wait_is_the_time_from_asking_to_having_the_batch():
    done = Bench([500, 20, 30]).run()
    assert (done.wait_ns, done.wall_ns, done.complete) == ([500, 20, 30], 550, True)
    assert [index.tolist() for index in done.indices] == [[0], [1], [2]]


def test_a_batch_counts_from_when_it_is_ready():
    bench = Bench([10, 20], ready_ns=7)
    assert bench.run(ready=bench.ready).wait_ns == [17, 27]


def test_think_time_is_no_wait_but_is_in_the_wall_time():
    bench = Bench([10, 20, 30])
    done = bench.run(consumer=bench.sleeper(1_000))
    assert (done.wait_ns, done.think_ns, done.wall_ns) == ([10, 20, 30], 3_000, 3_060)
    assert done.busy_ns == 3_000


class Training(Consumer):
    """A step of 40 ns on a device, whose batch takes 5 ns to get there; made ready in 9,000."""

    def __init__(self, bench):
        self.bench, self.prepared, self.consumed = bench, [], []

    def prepare(self, batch):
        self.bench.now += 9_000
        self.prepared.append(batch["index"])

    def consume(self, batch):
        self.bench.now += 45
        self.consumed.append(batch["index"])
        return 40


def test_a_step_is_outside_the_waits_and_making_it_ready_in_no_figure():
    bench = Bench([10, 20, 30])
    training = Training(bench)
    done = bench.run(consumer=training)
    assert (done.wait_ns, done.think_ns, done.busy_ns) == ([10, 20, 30], 3 * 45, 3 * 40)
    assert done.wall_ns == 60 + 3 * 45
    assert (training.prepared, training.consumed) == ([[0]], [[0], [1], [2]])


def test_a_step_is_made_ready_for_batches_of_another_length():
    class Odd(Bench):
        def start(self):
            for number, size in enumerate([4, 4, 4, 2]):
                self.now += 10
                yield {"index": [number] * size}

    bench = Odd([])
    training = Training(bench)
    done = bench.run(consumer=training)
    assert training.prepared == [[0] * 4, [3] * 2]
    assert done.wall_ns == 40 + 4 * 45


def test_making_a_step_ready_takes_nothing_from_the_time_of_a_pass():
    bench = Bench([10] * 50)
    done = bench.run(consumer=Training(bench), stop_after_ns=500)
    assert len(done.wait_ns) == 10
    assert not done.complete


def test_a_pass_goes_on_for_as_long_as_it_is_told_each_time_that_it_would_end():
    asked = []

    def go_on(arrived, first_ns, last_ns):
        asked.append((arrived, first_ns, last_ns))
        return 25 if len(asked) < 3 else 0

    done = Bench([50] + [10] * 50).run(stop_after_ns=55, go_on=go_on)
    assert asked == [(2, 50, 60), (5, 50, 90), (8, 50, 120)]
    assert (len(done.wait_ns), done.complete) == (8, False)


def test_whether_a_pass_goes_on_does_not_hang_on_how_long_a_step_was_made_ready():
    asked = []

    def go_on(*given):
        asked.append(given)
        return 0

    bench = Bench([10] * 50)
    bench.run(consumer=Training(bench), stop_after_ns=200, go_on=go_on)
    assert asked == [(5, 10, 5 * 10 + 4 * 45)]


def test_a_pass_that_is_never_to_end_is_complete():
    done = Bench([10] * 50).run(stop_after_ns=55, go_on=lambda *_: 1)
    assert (len(done.wait_ns), done.complete) == (50, True)


def test_keeping_a_batch_is_in_no_figure():
    done = Bench([10, 20, 30], copy_ns=400).run(keep=2, secret=5)
    assert (done.wait_ns, done.wall_ns) == ([10, 20, 30], 60)
    assert len(done.kept) == 2
    assert all(batch == {"index": [number]} for number, batch in done.kept.items())


def test_keeping_and_thinking_together_leave_the_waits_alone():
    bench = Bench([10, 20, 30], copy_ns=400)
    done = bench.run(keep=1, consumer=bench.sleeper(1_000))
    assert (done.wait_ns, done.think_ns, done.wall_ns) == ([10, 20, 30], 3_000, 3_060)


def test_all_batches_are_kept_where_so_many_are_asked_for():
    assert list(Bench([10] * 5).run(keep=5).kept) == [0, 1, 2, 3, 4]
    assert list(Bench([10] * 5).run(keep=9).kept) == [0, 1, 2, 3, 4]
    assert Bench([10] * 5).run().kept == {}


def test_any_batch_is_as_likely_to_be_kept_as_any_other():
    counts, entropy = [0] * 10, random.Random(0)
    for _ in range(2_000):
        waits = [500 + entropy.randrange(100) for _ in range(10)]
        for number in Bench(waits).run(keep=2, secret=entropy.getrandbits(64)).kept:
            counts[number] += 1
    assert sum(counts) == 4_000
    assert all(300 < count < 500 for count in counts), counts


def test_which_batches_are_kept_changes_with_when_they_arrive_and_from_pass_to_pass():
    assert len({tuple(Bench([10 + n] * 50).run(keep=2, secret=1).kept) for n in range(20)}) > 10
    assert len({tuple(Bench([10] * 50).run(keep=2).kept) for _ in range(20)}) > 10


def test_a_short_batch_is_always_kept():
    class Short(Bench):
        def start(self):
            for number in range(50):
                self.now += 10
                yield {"index": [number] * (2 if number in {31, 49} else 4)}

    for secret in range(20):
        done = Short([]).run(keep=2, secret=secret)
        assert {31, 49} <= set(done.kept)
        assert 2 <= len(done.kept) <= 4


def test_indices_are_those_of_arrival_whatever_their_number():
    class Growing(Bench):
        def start(self):
            index = np.zeros(7, np.int64)
            for number, size in enumerate([4, 4, 2, 4, 7, 0, 4]):
                index[:] = number
                yield {"index": index[:size]}

    done = Growing([]).run(keep=1)
    found = [index.tolist() for index in done.indices]
    assert found == [[0] * 4, [1] * 4, [2] * 2, [3] * 4, [4] * 7, [], [6] * 4]


def test_kept_batches_are_examined_and_one_in_sixteen_of_the_others():
    examined = []

    class Examiner(Receiver):
        def examine(self, batch):
            examined.append(batch["index"][0])

    bench = Bench([10 + number % 7 for number in range(3_200)])
    done = bench.run(keep=3, receiver=Examiner())
    assert set(done.kept) <= set(examined)
    assert 120 < len(examined) < 300


def test_examining_is_in_no_figure():
    bench = Bench([10] * 40)

    class Examiner(Receiver):
        def examine(self, batch):
            bench.now += 5_000

    done = bench.run(keep=2, receiver=Examiner())
    assert (set(done.wait_ns), done.wall_ns) == ({10}, 400)


def test_copying_an_index_is_in_no_figure():
    bench = Bench([10] * 40)

    class Slow(Receiver):
        def index_of(self, batch):
            bench.now += 5_000
            return super().index_of(batch)

    done = bench.run(consumer=bench.sleeper(70), receiver=Slow())
    assert (set(done.wait_ns), done.think_ns, done.wall_ns) == ({10}, 40 * 70, 40 * 80)


def test_making_a_batch_usable_is_in_its_wait():
    bench = Bench([10] * 40)

    class Slow(Receiver):
        def receive(self, batch):
            bench.now += 5_000
            return batch

    assert bench.run(receiver=Slow()).wall_ns == 40 * 5_010


def test_what_a_loader_does_after_its_last_batch_is_in_the_wall_time_and_in_no_wait():
    class Closing(Bench):
        def start(self):
            yield from super().start()
            self.now += 300

    done = Closing([10, 20]).run()
    assert (done.wait_ns, done.wall_ns) == ([10, 20], 330)


def test_a_pass_stops_after_the_batch_that_crosses_its_time():
    done = Bench([10, 20, 30, 40]).run(stop_after_ns=25)
    assert (done.wait_ns, done.complete) == ([10, 20], False)


def test_a_pass_that_is_stopped_keeps_what_it_has():
    done = Bench([100, 100, 100, 100], copy_ns=1000).run(keep=3, stop_after_ns=150)
    assert list(done.kept) == [0, 1]
    assert (done.complete, done.wait_ns, done.wall_ns) == (False, [100, 100], 200)


def test_an_empty_pass_has_no_wait():
    done = Bench([]).run()
    assert (done.wait_ns, done.indices, done.complete) == ([], [], True)
