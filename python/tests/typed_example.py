"""What a user with a type checker writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import narrows


def longest_wait_ms(run: narrows.Run) -> float:
    sojourn = run.series("link/access/up/bottleneck", "sojourn_ms")
    values: list[float] = sojourn.value.to_list()
    return max(values)


def follow(progress: narrows.Progress) -> None:
    if progress.note is not None:
        print(progress.note)


def main() -> None:
    scenario = narrows.scenario(
        links=["netem delay 5ms", "rate 10Mbit queue fq_codel"],
        flows="cubic",
        set={"duration": "2s"},
    )
    # Elements without a name are called by what they are.
    run = narrows.run(scenario, progress=follow)
    names: list[str] = [str(flow["name"]) for flow in run.flows]
    print(names, run.trust, longest_wait_ms(run))
    with ThreadPoolExecutor(2) as threads:
        swept = narrows.sweep(
            scenario,
            {"flow/cubic/cc": ["cubic", "reno"]},
            executor=threads,
            store=Path("store"),
            each=lambda done: print(done.name, done.digests),
        )
    for figure in swept.figures:
        print(figure.name, len(figure.svg))
    try:
        narrows.run(scenario, engine="sim", set={"duration": "never"})
    except narrows.Refused as refused:
        print(refused.key, refused.found, refused.allowed)


if __name__ == "__main__":
    main()
