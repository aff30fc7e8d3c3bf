"""A peer of `kernels bench --peers`: a program that says its name, then answers each line of its input with one line.

    <- {"peer": "torch 2.13"}                       or {"error": "why it cannot run"}, and it ends
    -> {"call": {"op": .., "case": .., "tensors": [{"dtype": .., "shape": [..]}, ..], "threads": 2}}
    <- {"note": "what it runs"}                     or {"error": "why it has no such thing"}
    -> {"seconds": 0.02}
    <- {"seconds": 0.0000123}                       for one call, measured over about so long

Tensors are those of the op's contract, in its order; a peer fills its own with random numbers.
"""
import json, os, re, sys, time


class Absent(Exception):
    """The library has no such op, type or shape."""


def number(case, name):
    """A number that a case's name gives: `top_p: 0.95`."""
    return float(re.search(name + r"[: ]+([0-9.]+)", case)[1])


def serve(start):
    """`start()` gives (name, make); `make(call)` gives (note, function) or raises Absent."""
    # What libraries print must not come between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = lambda **what: print(json.dumps(what), file=out, flush=True)
    try:
        name, make = start()
    except Exception as error:
        return answer(error=f"{type(error).__name__}: {error}".split("\n")[0])
    answer(peer=name)
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "call" in request:
                run = None
                note, run = make(request["call"])
                run()
                answer(note=note)
            else:
                answer(seconds=measure(run, request["seconds"]))
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}".split("\n")[0])


def measure(run, seconds):
    run()
    start = time.perf_counter()
    run()
    count = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count
