"""Many threads on the same operators: no result may be wrong, whoever profiles or switches."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

import clprim as cp
from bench.torture.case import Case, WrongError
from clprim.runtime.device import Device

# What an operator answers where another thread has chosen another device meanwhile.
_REFUSALS = ("another OpenCL context", "gathered by a kernel on its own device")


def storm(
    cases: Sequence[tuple[Device, Case]], seconds: float, seed: int, threads: int = 8
) -> tuple[int, int]:
    """Runs cases from several threads, which profile and choose devices at random."""
    devices = list(dict.fromkeys(device for device, _ in cases))
    before = cp.current_device()
    end = time.monotonic() + seconds
    failures: list[BaseException] = []
    counts = np.zeros((threads, 2), np.int64)

    def work(number: int) -> None:
        random = np.random.default_rng([seed, number])
        while time.monotonic() < end and not failures:
            device, case = cases[int(random.integers(len(cases)))]
            choice = random.random()
            try:
                if len(devices) > 1 and choice < 0.05:
                    cp.set_device(device)
                elif choice < 0.3:
                    with cp.profile(device):
                        case.check()
                else:
                    case.check()
                counts[number, 0] += 1
            except cp.DeviceError as error:
                if len(devices) == 1 or not any(words in str(error) for words in _REFUSALS):
                    failures.append(error)
                counts[number, 1] += 1
            except WrongError as error:
                failures.append(WrongError(f"{device}\n{case.text}\n{error}"))
            except BaseException as error:  # a thread that dies must be seen
                failures.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    cp.set_device(before)
    if failures:
        raise failures[0]
    for device in devices:
        if device.profiles or device.queue is not device.queues[0]:
            raise WrongError(f"{device}: a profile ended and left its queue behind")
    return int(counts[:, 0].sum()), int(counts[:, 1].sum())
