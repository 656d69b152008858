"""Honest groups beside a hostile one, on a system of its own: what they cost each other.

Phases by turns, in which the hostile members send the same to somebody who does nothing, and to
the system: a busy machine makes both longer, a product that lets one group hurt the others only
the second.
"""

import json
import os
from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from dashboard.agents.messages import most_bytes
from dashboard.evaluation.beside import honest, hostile, idle, made
from dashboard.evaluation.beside.programs import cpu_s, ended, line_of, made_groups, program, tell
from dashboard.evaluation.judge import FAILED, HELD, VIOLATED
from dashboard.evaluation.system import Run, own_run
from dashboard.management.arguments import say

HONEST_GROUPS = 50
ATTACKED = "hostile"
RATIO_MAX = 2.0
PAIRS = 3
SECONDS = 20
REST_S = 3.0  # between phases: what one left behind is not the next one's
UNDISTURBED, DISTURBED = "undisturbed", "disturbed"
SAMPLES_LEAST = 10
Found = dict[str, Any]


def measured(seed: int, pairs: int, seconds: int) -> tuple[Found, int]:
    """What the command answers, and its exit code. Raises Refused, TreeFailed, Stopped."""
    names = [f"honest-{number}" for number in range(1, HONEST_GROUPS + 1)]
    phases, told = list[Found](), list[Found]()
    with own_run(say, seed, demo=False) as run:
        run.demo.start_dashboard()
        tokens = made_groups(run, dict.fromkeys([*names, ATTACKED], made.PARTITIONS))
        assert run.demo.redis is not None  # the environment names no other one here
        ports = str(run.demo.options.port), str(run.demo.redis.server.port)
        with program(idle.__name__) as still:
            idle_ports = tuple(line_of(run, still).split())
            with program(honest.__name__, *ports) as beside:
                tell(beside, json.dumps({name: tokens[name] for name in names}))
                say("waiting until every honest group is settled")
                line_of(run, beside)
                for number in range(2 * pairs):
                    name = (UNDISTURBED, DISTURBED)[number % 2]
                    at = (idle_ports, ports)[number % 2]
                    phases.append({"name": name, "load": round(os.getloadavg()[0], 2)})
                    tell(beside, f"{number}")
                    before = cpu_s(run)
                    told.append(_attack(run, at, tokens[ATTACKED], seconds))
                    tell(beside, "-")
                    phases[-1]["cpu_s"] = {
                        part: round(spent - before.get(part, 0.0), 2)
                        for part, spent in cpu_s(run).items()
                    }
                    say(f"phase {number + 1} of {2 * pairs}, {name}: {told[-1]}")
                    run.pass_time(REST_S)
                found = json.loads(ended(run, beside))
    samples = [found.get(f"{number}", {}) for number in range(len(phases))]
    shown = [phase | _shown(of) for phase, of in zip(phases, samples, strict=True)]
    return answer(shown, samples, told[1::2])


def answer(
    phases: Sequence[Found], samples: Sequence[Mapping[str, Any]], told: Sequence[Found]
) -> tuple[Found, int]:
    """`samples` by phase, `told` by the hostile members of each that disturbed."""
    compared = {name: compare(phases, samples, name) for name in ("heartbeat_ms", "rebalance_ms")}
    ratios = [one["ratio"] for one in compared.values()]
    failed = sum(
        s.get("failed", 0) for s, p in zip(samples, phases, strict=True) if p["name"] == DISTURBED
    )
    is_judged = all(one is not None for one in ratios)
    held = is_judged and max(ratios) <= RATIO_MAX
    found = {
        "honest_groups": HONEST_GROUPS,
        "hostile_members": hostile.MEMBERS,
        "phases": [*phases],
        **compared,
        "hostile_requests": sum(one["requests"] for one in told),
        "hostile_refused": sum(one["refused"] for one in told),
        "honest_failed": failed,
        "ok": held,
    }
    return found, HELD if held else VIOLATED if is_judged else FAILED


def compare(phases: Sequence[Found], samples: Sequence[Mapping[str, Any]], name: str) -> Found:
    """Medians over all phases of a kind; p95 beside them. None: too little was measured. `noise`:
    how far apart the undisturbed phases' own medians are, as a ratio: below it nothing is seen.
    """
    calm = [
        median(of[name])
        for phase, of in zip(phases, samples, strict=True)
        if phase["name"] == UNDISTURBED and of.get(name)
    ]
    found: Found = {"noise": round(max(calm) / min(calm), 2) if calm and min(calm) else None}
    for kind in (UNDISTURBED, DISTURBED):
        values = [
            value
            for phase, of in zip(phases, samples, strict=True)
            if phase["name"] == kind
            for value in of.get(name, ())
        ]
        enough = len(values) >= SAMPLES_LEAST
        found[kind] = round(median(values), 2) if enough else None
        found[f"{kind}_p95"] = round(p95(values), 2) if enough else None
    for end in ("", "_p95"):
        before, after = found[f"{UNDISTURBED}{end}"], found[f"{DISTURBED}{end}"]
        found[f"ratio{end}"] = round(after / before, 2) if before and after else None
    return found


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


def _shown(samples: Mapping[str, Any]) -> Found:
    shown: Found = {"failed": samples.get("failed", 0)}
    for name in ("heartbeat_ms", "rebalance_ms"):
        values = samples.get(name, [])
        shown[name] = round(median(values), 2) if values else None
        shown[f"{name}_count"] = len(values)
    return shown


def _attack(run: Run, ports: Sequence[str], token: str, seconds: int) -> Found:
    most = str(most_bytes("heartbeat", made.PARTITIONS))
    with program(hostile.__name__, *ports, ATTACKED, str(seconds), most) as attackers:
        tell(attackers, token)
        found: Found = json.loads(line_of(run, attackers))
    return found
