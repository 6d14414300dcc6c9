"""The faults that a run draws from. Each is a function of the Run; it returns when the fault has happened."""

import os
import random
import signal
import time

# How often each is drawn, relative to the others.
WEIGHTS = {}
OF_RECEIVERS = set()  # that need a bulkhead-receive


def fault(weight, of_receiver=False):
    def register(function):
        WEIGHTS[function] = weight
        if of_receiver:
            OF_RECEIVERS.add(function)
        return function

    return register


def _signal_worker(run, number):
    workers = run.service.workers()
    if workers:
        try:
            os.kill(run.random.choice(workers), number)
        except ProcessLookupError:  # it ended by itself just now
            pass


def _arm(run, kind, moment):
    """A worker fails at that moment of its next lease."""
    at = ["kill", "stop"].index(kind) * 3 + ["received", "produced", "reported"].index(moment)
    run.armed[at] = 1
    run.wait_until(lambda: run.armed[at] == 0, f"no worker reached '{moment}'")


@fault(6)
def kill_worker_anywhere(run):
    _signal_worker(run, signal.SIGKILL)


@fault(4)
def kill_worker_that_received_a_lease(run):
    _arm(run, "kill", "received")


@fault(6)
def kill_worker_before_it_commits(run):
    _arm(run, "kill", "produced")


@fault(6)
def kill_worker_after_it_committed(run):
    _arm(run, "kill", "reported")


@fault(2)
def stop_worker_anywhere(run):
    _signal_worker(run, signal.SIGSTOP)


@fault(1)
def stop_worker_that_received_a_lease(run):
    _arm(run, "stop", "received")


@fault(1)
def stop_worker_before_it_commits(run):
    _arm(run, "stop", "produced")


@fault(1)
def stop_worker_after_it_committed(run):
    _arm(run, "stop", "reported")


@fault(3)
def kill_all_workers(run):
    for worker in run.service.workers():
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            pass


@fault(4)
def kill_service(run):
    run.service.kill()
    time.sleep(run.random.choice([0, 0, 0.1, 0.5]))
    run.service.start()


@fault(1)
def kill_all_services(run):
    for replica in run.replicas:
        replica.service.kill()
    for replica in run.replicas:
        replica.service.start()


@fault(1)
def restart_service(run):
    run.service.stop()
    run.service.start()


@fault(2)
def stop_service_for_a_while(run):
    os.kill(run.service.pid, signal.SIGSTOP)
    time.sleep(run.random.uniform(0.05, 1.0))
    os.kill(run.service.pid, signal.SIGCONT)


@fault(4)
def cut_connection(run):
    run.proxy.cut()


@fault(2)
def delay_connection(run):
    run.proxy.delay(run.random.uniform(0.1, 1.0))


@fault(0.3)
def half_open_connection(run):
    run.proxy.black_hole(run.random.uniform(1, 12))


@fault(3)
def vanish_trainer(run):
    run.trainer.kill()
    run.start_trainer()


@fault(2)
def stop_trainer_for_a_while(run):
    run.trainer.signal(signal.SIGSTOP)
    time.sleep(run.random.uniform(0.05, 1.0))
    run.trainer.signal(signal.SIGCONT)


@fault(1)
def slow_trainer(run):
    run.trainer.kill()
    run.start_trainer(pause_ms=run.random.choice([50, 100]))
    time.sleep(0.5)
    run.trainer.kill()
    run.start_trainer()


@fault(4, of_receiver=True)
def kill_receiver(run):
    run.trainer.signal_receiver(signal.SIGKILL)


@fault(2, of_receiver=True)
def stop_receiver_for_a_while(run):
    if run.trainer.signal_receiver(signal.SIGSTOP):
        time.sleep(run.random.uniform(0.05, 1.0))
        run.trainer.signal_receiver(signal.SIGCONT)


@fault(0.3, of_receiver=True)
def stop_receiver(run):
    run.trainer.signal_receiver(signal.SIGSTOP)


def draw(rng: random.Random, receiver: bool):
    """`receiver`: whether the trainer has one."""
    drawn = {fault: weight for fault, weight in WEIGHTS.items() if receiver or fault not in OF_RECEIVERS}
    return rng.choices(list(drawn), weights=list(drawn.values()))[0]
