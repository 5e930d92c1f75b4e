"""What pages have tables of: for each mark a function of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fedbandits.report.readable import human

TABLES: dict[str, Callable[[dict[str, Any]], str]] = {}


def table(name: str) -> Callable[[Callable[[dict[str, Any]], str]], Callable[[dict[str, Any]], str]]:
    """The decorated function is what the mark of that name asks for."""

    def named(made: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
        TABLES[name] = made
        return made

    return named


def rows(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    said = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*said, *("| " + " | ".join(map(str, line)) + " |" for line in lines)])


def figure(value: float, digits: int = 2) -> str:
    """So many significant digits, but all of those before the point."""
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{float(f'{value:.{digits}g}'):.{10}f}".rstrip("0").rstrip(".")


def code(words: str) -> str:
    """Words that may hold a bar, which a table cannot."""
    return f"<code>{words.replace('|', '&#124;')}</code>" if "|" in words else f"`{words}`"


@table("machine")
def _machine(record: dict[str, Any]) -> str:
    found = record["machine"]
    free = "" if found["free"] is None else f" of which {found['free']:.0%} were free before it began"
    return (
        f"{found['cpu']} ({found['kind']}), {found['cores']} cores{free}; "
        f"Python {found['python']}, numpy {found['numpy']}, numba {found['numba']}"
    )


@table("kernel")
def _kernel(record: dict[str, Any]) -> str:
    found = record["kernels"]["ratios"]
    names = {
        "loop": "a loop over agents with `numpy.linalg.inv`",
        "loop, transposed arms": "the same loop, arms in its faster memory order",
        "batched numpy": "batched numpy (matmul, Sherman-Morrison)",
        "kernels": f"the kernels (choose {1e6 * found['choose']['median']:.1f}, "
        f"learn {1e6 * found['learn']['median']:.1f})",
        "limit": f"{found['limit']['flops'] / 1e6:.2f} Mflop at the rate of dgemm, "
        f"{found['limit']['dgemm_flops_per_second'] / 1e9:.0f} Gflop/s",
    }
    return rows(
        ("way", "µs per step", "times the kernels"),
        ((said, f"{1e6 * found[n]['median']:,.1f}", figure(found["ratios"].get(n, 1.0))) for n, said in names.items()),
    )


@table("kernel-growth")
def _kernel_growth(record: dict[str, Any]) -> str:
    names = {"n": "agents", "d": "dimension", "K": "arms"}
    lines = []
    for axis, called in names.items():
        found = [entry for entry in record["kernels"]["growth"] if entry["axis"] == axis and "skipped" not in entry]
        lines.append((called, ", ".join(f"{figure(1e6 * one['median'])} ({one['value']:,})" for one in found)))
    return rows(("what grows", "µs per decision, and at which size"), lines)


@table("libraries")
def _libraries(record: dict[str, Any]) -> str:
    found = record["kernels"]["peers"]
    return rows(
        ("library", "decisions per second"),
        (
            (
                " ".join(filter(None, (one["name"], one.get("version")))),
                one["skipped"] if "skipped" in one else f"{one['decisions_per_second']:,.0f}",
            )
            for one in found
        ),
    )


@table("simulations")
def _simulations(record: dict[str, Any]) -> str:
    found = record["simulations"]["Whole simulations"]
    lines: dict[str, dict[str, float]] = {}
    for one in found:
        lines.setdefault(one["algorithm"], {})[one["title"].rpartition(", ")[2]] = one["decisions_per_second"]
    kinds = ["fresh arms", "hashed arms", "pool of 1000"]
    return rows(
        ("algorithm", *kinds),
        ((code(name), *(f"{of[kind]:,.0f}" if kind in of else "" for kind in kinds)) for name, of in lines.items()),
    )


@table("growth")
def _growth(record: dict[str, Any]) -> str:
    found = record["simulations"]["How cost grows"]

    def each(title: str, by: str) -> dict[int, str]:
        return {one[by]: figure(1e6 / one["decisions_per_second"]) for one in found if one["title"] == title}

    def agents(title: str) -> dict[int, str]:
        cases = [one for one in found if one["title"] == title]
        first = {one["clients"]: figure(1e6 * one["first_seconds"] / one["decisions"]) for one in cases}
        return {n: f"{best} ({first[n]})" for n, best in each(title, "clients").items()}

    drawn, hashed = agents("agents"), agents("agents, hashed arms")
    return "\n\n".join(
        (
            rows(("agents", "drawn", "hashed"), ((f"{n:,}", drawn[n], hashed[n]) for n in drawn)),
            rows(
                ("what grows, 100 agents, drawn arms", "µs per decision, and at which size"),
                (
                    (title, ", ".join(f"{said} ({value:,})" for value, said in each(title, by).items()))
                    for title, by in (("dimension", "dim"), ("arms", "arms"))
                ),
            ),
        )
    )


@table("many")
def _many(record: dict[str, Any]) -> str:
    return rows(
        ("agents", "matrices", "decisions", "synchronisations", "µs per decision", "CPU seconds", "MB at the peak"),
        (
            (
                f"{one['clients']:,}",
                one["memory"],
                f"{one['decisions']:,}",
                one["syncs"],
                figure(1e6 / one["decisions_per_second"]),
                figure(one["seconds"]),
                figure(one["megabytes"], 3),
            )
            for one in record["simulations"]["Very many agents"]
        ),
    )


@table("families")
def _families(record: dict[str, Any]) -> str:
    found = record["simulations"]
    cases = [*found["The clustered family"], *found["The generalized linear family"]]
    return rows(
        ("algorithm", "agents", "decisions", "synchronisations", "µs per decision", "CPU seconds"),
        (
            (
                code(one["algorithm"]),
                f"{one['clients']:,}",
                f"{one['decisions']:,}",
                f"{one['syncs']:,}",
                figure(1e6 / one["decisions_per_second"]),
                figure(one["seconds"]),
            )
            for one in cases
        ),
    )


def _ways(entries: list[dict[str, Any]], columns: dict[str, str], heads: Sequence[str] = ("algorithm",)) -> str:
    def said(pair: dict[str, float]) -> str:
        return ", ".join(figure(value) for value in pair.values())

    lines = ((code(one["algorithm"]), *(said(one[column]) for column in columns)) for one in entries)
    return rows((*heads, *columns.values()), lines)


_SIZES = {"1": "1 agent", "10": "10 agents", "100": "100 agents"}


@table("both-ways")
def _both_ways(record: dict[str, Any]) -> str:
    return _ways([one for one in record["both_ways"] if "played" in one["10"]], _SIZES)


@table("stepwise")
def _stepwise(record: dict[str, Any]) -> str:
    return _ways([one for one in record["both_ways"] if "played" not in one["10"]], _SIZES)


@table("released")
def _released(record: dict[str, Any]) -> str:
    found = record["peers"]
    shares = ("drawing", "turns", "talk")
    lines = [
        (
            code(one["algorithm"]),
            code(one["environment"]),
            one["horizon"],
            one["syncs"],
            f"{one['rate']:,.0f}",
            f"{one['released']:,.0f}",
            f"{one['times']:.0f}",
            f"{one['aim']:.0f}" + ("" if one["times"] >= one["aim"] else ", **missed**"),
            ", ".join(f"{one[part]:.0%}" for part in shares),
        )
        for one in found
    ]
    heads = ("algorithm", "environment", "T", "synchronisations", "ours", "released", "times", "aim")
    return rows((*heads, "drawing, turns, talking"), lines)


@table("released-summary")
def _released_summary(record: dict[str, Any]) -> str:
    met = sum(one["times"] >= one["aim"] for one in record["peers"])
    least, most = (pick(one["times"] for one in record["peers"]) for pick in (min, max))
    return f"{met} of {len(record['peers'])} aims are met; ratios are {least:.0f} to {most:.0f}"


@table("processes")
def _processes(record: dict[str, Any]) -> str:
    names = ("append", "decide", "anew_append", "anew_decide")
    return rows(
        ("t", "append", "decide", "invert anew", "decide", "append: times as fast", "whole turn", "Gflop/s, deciding"),
        (
            (
                f"{one['observations']:,}",
                *(f"{figure(1e3 * one[name])} ms" for name in names),
                f"{one['ratio_append']:,.0f}",
                f"{one['ratio_turn']:,.0f}",
                f"{one['decide_gflops']:.0f}",
            )
            for one in record["kernel_processes"]["turns"]
        ),
    )


@table("kernel-company")
def _kernel_company(record: dict[str, Any]) -> str:
    found, lines = record["kernel_processes"], []
    for one in found["federations"]:
        what = f"D = {one['threshold']:g}, {one['syncs']} synchronisations, {figure(one['megabytes'])} MB said"
        lines.append((code(one["algorithm"]), one["agents"], what, figure(one["seconds"])))
    for one in found["graphs"]:
        what = f"{one['rounds']} rounds on a graph, {one['gigabytes']:.1f} GB at the peak so far"
        lines.append((code(one["algorithm"]), one["agents"], what, figure(one["seconds"])))
    return rows(("algorithm", "agents", "run", "CPU seconds"), lines)


@table("nonlinear")
def _nonlinear(record: dict[str, Any]) -> str:
    return rows(
        ("candidates", "p", "beliefs about candidates, µs", "matrices, µs", "times as fast"),
        (
            (
                one["candidates"],
                one["parameters"],
                figure(one["beliefs"]),
                f"{one['matrices']:,.0f}",
                f"{one['ratio']:,.0f}",
            )
            for one in record["nonlinear"]
        ),
    )


@table("networks-of-units")
def _units(record: dict[str, Any]) -> str:
    found = record["neural"]
    lines = [
        (code(one["algorithm"]), one["N"], one["T"], f"{one['decisions_per_cpu_second']:,.0f}")
        for one in found["simulations"]
    ]
    for one in found["against torch"]:
        both = f"{one['ours']:,.0f}, torch {one['torch']:,.0f}: {one['times']:.0f} times"
        lines.append((f"{code(one['algorithm'])} beside torch", one["N"], one["T"], both))
    return rows(("algorithm", "N", "T", "decisions per CPU second"), lines)


@table("training")
def _training(record: dict[str, Any]) -> str:
    return rows(
        ("d", "m", "observations", "Gflop/s", "BLAS, products of that size"),
        (
            (one["d"], one["m"], one["observations"], f"{one['gflops']:.0f}", f"{one['dgemm']:.0f}")
            for one in record["neural"]["training"]
        ),
    )


@table("tangents")
def _tangents(record: dict[str, Any]) -> str:
    return rows(
        ("p", "observations", "in the space of features", "in that of observations"),
        (
            (one["p"], one["t"], f"{figure(one['features, ms'])} ms", f"{figure(one['observations, ms'])} ms")
            for one in record["neural"]["spread"]
        ),
    )


@table("letters")
def _letters(record: dict[str, Any]) -> str:
    lines = []
    for one in record["neural"]["letters"]:
        weights = (figure(one[way] / 1e6, 3) for way in ("up", "down"))
        lines.append((code(one["algorithm"]), "yes" if one["packed"] else "no", *weights))
    return rows(("algorithm", "packed", "up, MB", "down, MB"), lines)


@table("graph-loop")
def _graph_loop(record: dict[str, Any]) -> str:
    found = record["networks"]["against the loop"]
    rates = f"{found['fedbandits']:,.0f} agent-rounds per second against {found['loop']:,.0f}"
    return f"{rates}, **{found['ratio']:.0f} times** as fast"


@table("graph-ways")
def _graph_ways(record: dict[str, Any]) -> str:
    entries = record["networks"]["both ways"]
    return _ways(entries, {name: name for name in entries[0] if name != "algorithm"})


@table("graph-growth")
def _graph_growth(record: dict[str, Any]) -> str:
    found, lines = record["networks"], []
    for one in (*found["How cost grows"], *found["The largest run"]):
        sizes = (f"{one['n']:,}", one["K"], one["gamma"], f"{one['T']:,}")
        rates = (figure(one[rate]) for rate in ("agent_rounds_per_second", "links_per_second"))
        lines.append((one["title"], code(one["algorithm"]), *sizes, *rates))
    rates_of = ("agent-rounds per second", "links crossed per second")
    return rows(("case", "algorithm", "n", "K", "hops", "T", *rates_of), lines)


@table("agent")
def _agent(record: dict[str, Any]) -> str:
    found = record["agent"]["calls"]
    return rows(
        ("", "decide", "reward", "both, median", "mean", "99 %"),
        ((one["title"], *(f"{one[key]:,.0f}" for key in ("decide", "reward", "both", "mean", "p99"))) for one in found),
    )


@table("openings")
def _openings(record: dict[str, Any]) -> str:
    found = record["agent"]["openings"]
    again = f"{found['after 1000 entries']:.0f} ms with 1000 entries to be done again"
    return f"{found['after closing']:.0f} ms after closing, {again}"


@table("planning")
def _planning(record: dict[str, Any]) -> str:
    found = record["planning"]["against the loop"]
    return (
        f"{found['loop']:.2f} s against {found['ours']:.3f} s, **{found['ratio']:.0f} times** "
        f"(regret {found['regret of the loop']:.1f} and {found['regret of ours']:.1f})"
    )


_PUBLIC = {(6, 20): 1726, (10, 20): 869, (15, 40): 373}
"""Decisions per CPU second of a public LSVI-UCB on RiverSwim, by states and H, measured elsewhere."""


@table("rivers")
def _rivers(record: dict[str, Any]) -> str:
    lines = []
    for one in record["planning"]["rivers"]:
        public = _PUBLIC[one["states"], one["length"]]
        rates = [f"{one[kind]:,.0f} ({one[kind] / public:,.0f} times)" for kind in ("alone", "many")]
        lines.append((f"{one['states']}, {one['length']}", f"{public:,}", *rates))
    return rows(("states, H", "public, one agent", "one agent", "100 agents"), lines)


@table("planning-growth")
def _planning_growth(record: dict[str, Any]) -> str:
    found = record["planning"]
    names = {"clients": "agents", "length": "H", "dim": "dimension", "arms": "actions"}
    lines = [
        (
            said,
            ", ".join(f"{figure(o['microseconds'])} ({o['value']})" for o in found["growth"] if o["what"] == what),
        )
        for what, said in names.items()
    ]
    lines += [
        (
            f"episodes, {code(name)}",
            ", ".join(
                f"{figure(o['microseconds'])} ({o['episodes']})" for o in found["episodes"] if o["algorithm"] == name
            ),
        )
        for name in dict.fromkeys(one["algorithm"] for one in found["episodes"])
    ]
    return rows(("what grows", "µs per decision, and at which size"), lines)


@table("models")
def _models(record: dict[str, Any]) -> str:
    models = ["random", "linear", "generalized", "kernel, alone", "neural"]
    lines: dict[str, dict[str, str]] = {}
    for one in record["models"]:
        said = f"{figure(one['microseconds'])} µs, {human(one['scalars'])}"
        lines.setdefault(one["experiment"], {})[one["model"]] = said
    return rows(
        ("experiment", *models),
        ((code(name), *(lines[name].get(model, "") for model in models)) for name in lines),
    )
