"""Results of benchmarks/gpu.sh, which several calls may have left in a folder, as one file and as tables.

python -m benchmarks.cuda_report FOLDER benchmarks/results/cuda_h200
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

KINDS = {
    "values": "SHAP values of 10,000 rows (the paper's tables 3 and 6)",
    "interactions": "Interactions of 200 rows (table 7)",
}
COLUMNS = ("glasswood", "glasswood NumPy", "glasswood paths", "XGBoost", "GPUTreeShap")
ORDER = [
    f"{data}-{size}"
    for size in ("small", "med", "large")
    for data in ("cal_housing", "adult", "covtype", "fashion_mnist")
]
TIMES_XGBOOST = {
    "cal_housing-med": 200, "adult-med": 120, "covtype-med": 100, "fashion_mnist-med": 50, "cal_housing-large": 120,
    "adult-large": 70, "fashion_mnist-large": 25,
}  # fmt: skip
"""How many times as fast as XGBoost values should be."""

HEURISTICS = {"none": "none", "nf": "next fit", "ffd": "first fit decreasing", "bfd": "best fit decreasing"}
MISSING = "-"
FLOP_CEILING, DRAM_CEILING = 67e12, 4.8e12
"""Of an H200's datasheet, a second."""

CAPTION = """\
glasswood: GPU array to GPU array. glasswood NumPy: NumPy to NumPy. glasswood paths: `algorithm="paths"`, GPU array to
GPU array. XGBoost: prepared `DMatrix` to host array. GPUTreeShap: the shap-cuda wheel, NumPy to NumPy. V100: the
paper's. Medians of interleaved runs after a warm one, one run above 5 s. A result that is more than 1e-3 of the spread
of the leaves away from glasswood's has no time: "wrong"."""


def merge(folder: Path) -> dict[str, Any]:
    """Put the files of a folder together; of several rows of one model the last file's counts."""
    merged: dict[str, Any] = {"machines": {}, "models": {}}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        if "machine" in found:
            merged["machines"][path.stem] = found["machine"]
        commit = found.get("machine", {}).get("commit", MISSING)
        merged["models"] |= {row["model"]: {"commit": commit} | row for row in found.get("models", [])}
        for name in ("throughput", "background", "against_shap", "wide", "roofline", "row_phases"):
            if name in found:
                merged[name if name != "throughput" else f"throughput_{found[name]['n_gpus']}"] = found[name]
    merged["models"] = {name: merged["models"][name] for name in ORDER if name in merged["models"]}
    merged["checks"] = {path.stem: last_line(path) for path in sorted(folder.glob("*.log"))}
    return merged


def last_line(path: Path) -> str:
    """What pytest or the sanitizer's step said at the end."""
    lines = [
        line for line in path.read_text().splitlines() if re.search(r"\d+ (tests )?(passed|failed)|of \d+ tests", line)
    ]
    return lines[-1].strip("= ") if lines else "no result"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]


def milliseconds(seconds: float) -> str:
    """Two digits behind the point, three below a tenth."""
    return f"{1e3 * seconds:,.{2 if seconds >= 1e-4 else 3}f}"


def model_rows(models: dict[str, Any], kind: str) -> list[list[str]]:
    """Lines of a table of times."""
    rows = []
    for name, row in models.items():
        times = row[kind]["seconds"]
        cells = [
            milliseconds(times[c]) if c in times else "wrong" if c in row[kind]["wrong"] else MISSING for c in COLUMNS
        ]
        ratios = [f"{times[c] / times['glasswood']:,.1f}" if c in times else MISSING for c in COLUMNS[3:]]
        label = f"{name} ({row['rounds']} rounds)" if name.endswith("large") and row["rounds"] < 1000 else name
        leaves = f"{row['leaves']:,} ({row['paper_leaves']:,})"
        rows.append([label, leaves, *cells, f"{1e3 * row['paper'][f'{kind}_s']:,.0f}", *ratios, row["commit"]])
    return rows


def targets(merged: dict[str, Any]) -> list[list[str]]:
    """What was set as a target, what was reached, and whether that is enough."""
    models, rows = merged["models"], []

    def add(what: str, found: dict[str, float], bound: float, at_least: bool = True) -> None:
        if found:
            worst = (min if at_least else max)(found, key=lambda name: found[name])
            is_met = found[worst] >= bound if at_least else found[worst] <= bound
            verdict = "met" if is_met else "**missed**"
            rows.append([what, f"{'≥' if at_least else '≤'} {bound:g}", f"{found[worst]:,.2f} ({worst})", verdict])

    def ratios(
        kind: str, rival: str, own: str = "glasswood", sizes: tuple[str, ...] = ("med", "large")
    ) -> dict[str, float]:
        times = {name: row[kind]["seconds"] for name, row in models.items() if name.rsplit("-", 1)[1] in sizes}
        return {name: t[rival] / t[own] for name, t in times.items() if rival in t and own in t}

    for name, ratio in ratios("values", "XGBoost").items():
        if name in TIMES_XGBOOST:
            add("values, times XGBoost", {name: ratio}, TIMES_XGBOOST[name])
    add("values, times GPUTreeShap, med and large", ratios("values", "GPUTreeShap"), 12)
    add("values, times XGBoost, small", ratios("values", "XGBoost", sizes=("small",)), 6)
    for rival in ("XGBoost", "GPUTreeShap"):
        add(f"interactions, times {rival}, med and large", ratios("interactions", rival), 10)
    for n, bound in (("10000", 3), ("200", 1)):
        med = [times_walk(row, n) for name, row in models.items() if name.endswith("-med")]
        add(f"interactions of {n} rows, times the walk, med", {k: v for times in med for k, v in times.items()}, bound)
    for kind in KINDS:
        add(
            f"paths, {kind}, times GPUTreeShap",
            ratios(kind, "GPUTreeShap", "glasswood paths", ("small", "med", "large")),
            1,
        )
    for n_gpus, rates in throughputs(merged):
        million = rates["1000000"]
        for where, bound in (("GPU array", 40), ("NumPy", 25)):
            what = f"million rows a second on one GPU, 1 million rows, machine of {n_gpus}"
            add(what, {where: million[f"{where}, one GPU"] / 1e6}, bound)
        if n_gpus > 1:
            linear = {f"{int(n):,} rows": part_of_linear(r, n_gpus) for n, r in rates.items()}
            add(f"{n_gpus} GPUs, part of linear", linear, 0.9)
    for n_background, times in merged.get("background", {}).items():
        if n_background == "1000000":
            what = "seconds from a million background rows and a million rows to values"
            add(what, {"GPU array": sum(times["first_s"].values())}, 0.2, at_least=False)
    return rows


def times_walk(row: dict[str, Any], n: str) -> dict[str, float]:
    """How many times as fast as the walk of all trees interactions of so many rows are."""
    found = row.get("beside_walk", {}).get(n)
    return {row["model"]: found["seconds"]["walk"] / found["seconds"]["glasswood"]} if found else {}


def beside_walk_section(models: dict[str, Any]) -> list[str]:
    """Interactions of few and of many rows beside the walk."""
    body = []
    for name, row in models.items():
        for n, found in row.get("beside_walk", {}).items():
            times = (milliseconds(found["seconds"][how]) for how in ("glasswood", "walk"))
            ratio = times_walk(row, n)[name]
            body.append([name, f"{int(n):,}", *times, f"{ratio:.2f}", f"{found['error']:.0e}"])
    title = "## Interactions beside the walk of all trees, GPU array to GPU array, ms"
    header = ["model", "rows", "glasswood", "walk", "walk / glasswood", "apart, in spreads"]
    return ["", title, "", *table(header, body)] if body else []


def throughputs(merged: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Rates by number of GPUs."""
    found = [value for name, value in merged.items() if name.startswith("throughput_")]
    return [(value["n_gpus"], value["rows_per_second"]) for value in sorted(found, key=lambda v: v["n_gpus"])]


def part_of_linear(rates: dict[str, float], n_gpus: int) -> float:
    """Rate of all GPUs over that of one times their number, from and to the host."""
    return rates[f"NumPy, all {n_gpus} GPUs"] / rates["NumPy, one GPU"] / n_gpus


def throughput_section(merged: dict[str, Any]) -> list[str]:
    """Rows a second, and the crossover with the CPU."""
    lines = []
    for n_gpus, rates in throughputs(merged):
        lines += ["", f"## Rows a second, cal_housing-med, values, machine of {n_gpus} (in millions)", ""]
        names = ["GPU array, one GPU", "NumPy, one GPU", *([f"NumPy, all {n_gpus} GPUs"] if n_gpus > 1 else [])]
        header = ["rows", *names, *(["of linear"] if n_gpus > 1 else [])]
        body = [
            [f"{int(n):,}", *(f"{r[name] / 1e6:.2f}" for name in names)]
            + ([f"{part_of_linear(r, n_gpus):.3f}"] if n_gpus > 1 else [])
            for n, r in rates.items()
        ]
        lines += table(header, body)
        found = merged[f"throughput_{n_gpus}"]
        lines += ["", f"Crossover with the {found['cores']} cores beside it, NumPy to NumPy, ms:", ""]
        crossover = found["crossover_s"].items()
        lines += table(
            ["rows", "CPU", "GPU"], [[n, milliseconds(t["cpu"]), milliseconds(t["gpu"])] for n, t in crossover]
        )
    return lines


def background_section(merged: dict[str, Any]) -> list[str]:
    """First call against a background, and further ones."""
    found = merged.get("background")
    if not found:
        return []
    farthest = max(times["error"] for times in found.values())
    header = ["background rows", "rows", "checks and mean margin", "tables", "values", "sum", "values again"]
    body = []
    for n, times in found.items():
        parts = list(times["first_s"].values())
        numbers = map(milliseconds, (*parts, sum(parts), times["again_s"]))
        body.append([f"{int(n):,}", f"{times['rows']:,}", *numbers])
    title = "## Values against background rows, cal_housing-med, GPU arrays to GPU array, ms"
    return ["", title, "", *table(header, body), "", f"Farthest from float64 on the cores: {farthest:.0e} spreads."]


def shap_section(merged: dict[str, Any]) -> list[str]:
    """Values against background rows beside shap's."""
    if not (found := merged.get("against_shap")):
        return []
    body = []
    for row in found:
        cells = [row["output"], f"{row['background']:,}", f"{row['rows']:,}"]
        for times in (row["first_s"], row["again_s"]):
            other = "wrong" if "shap" in row["errors"] else MISSING
            shown = [milliseconds(times[name]) if name in times else other for name in ("glasswood", "shap")]
            cells += [*shown, f"{times['shap'] / times['glasswood']:,.0f}" if "shap" in times else MISSING]
        body.append([*cells, f"{row['errors'].get('shap', 0):.0e}"])
    header = [
        "output",
        "background rows",
        "rows",
        "glasswood",
        "shap",
        "shap / glasswood",
        "glasswood again",
        "shap again",
        "ratio",
    ]
    title = "## Values against background rows beside shap's GPU explainer, cal_housing-med, NumPy to NumPy, ms"
    note = "Background rows to values, then again. Apart: shap's largest error beside glasswood's float64 on the cores."
    return ["", title, "", *table([*header, "apart"], body), "", note]


def number(text: str) -> float:
    """The number in a counter's text: "1,234 inst" is 1234."""
    return float(text.split()[0].replace(",", ""))


def roofline_section(merged: dict[str, Any]) -> list[str]:
    """Counters of each kernel of a call, and what they say of the roofs."""
    lines = []
    for kind, kernels in merged.get("roofline", {}).items():
        names = [f"{k['kernel']} {k['registers'].split()[0]} registers" for k in kernels]
        metrics = [m for m in kernels[0] if m not in {"kernel", "grid", "block", "registers"}]
        lines += ["", f"## What limits {kind}, Nsight Compute", ""]
        lines += table(["", *names], [[metric, *(k[metric] for k in kernels)] for metric in metrics])
        lines += row_phase_lines(merged.get("row_phases", {}).get(kind))
        walks = [k for k in kernels if "rows" in k["kernel"] and "encode" not in k["kernel"]]
        lines += walk_lines(walks) if walks else []
    return lines


def row_phase_lines(phase: dict[str, float] | None) -> list[str]:
    """The row phase by tables beside its ceilings."""
    if not phase:
        return []
    return [
        "",
        f"Row phase: {phase['entries_bytes'] / 1e9:.2f} GB of entries of {phase['subtrees']:,.0f} subtrees in "
        f"{1e6 * phase['s']:.0f} of {1e6 * phase['all_s']:.0f} µs, {100 * phase['share_of_shared_memory']:.0f} % of "
        f"what shared memory reads and {100 * phase['share_of_additions']:.0f} % of the additions; beside it "
        f"{phase['tables_bytes'] / 1e6:.0f} MB of tables, {phase['keys_bytes'] / 1e6:.0f} MB of keys and "
        f"{phase['sums_bytes'] / 1e6:.0f} MB of sums, written and read.",
    ]


def walk_lines(walks: list[dict[str, str]]) -> list[str]:
    """The walk beside its ceilings."""
    flop = sum(
        2 * number(k["fused multiply-adds, threads"])
        + number(k["adds, threads"])
        + number(k["multiplications, threads"])
        for k in walks
    )
    seconds, dram = (sum(number(k[metric]) for k in walks) for metric in ("time", "DRAM bytes"))
    seconds *= 1e-9 if "ns" in walks[0]["time"] else 1e-6
    stalled = [
        number(k["of these: long_scoreboard"]) / number(k["cycles a warp waits for an instruction"]) for k in walks
    ]
    return [
        "",
        f"Walks: {flop / 1e9:.1f} GFLOP and {dram / 1e6:.0f} MB from DRAM in {1e3 * seconds:.2f} ms, "
        f"{100 * flop / seconds / FLOP_CEILING:.0f} % and {100 * dram / seconds / DRAM_CEILING:.1f} % of the "
        f"ceilings (67 TFLOP/s, 4.8 TB/s). Of the cycles between two instructions of a warp "
        f"{100 * min(stalled):.0f} to {100 * max(stalled):.0f} % wait for loads from L1 and beyond.",
    ]


def machine_text(merged: dict[str, Any]) -> list[str]:
    """Which machines, versions and commits the numbers are from."""
    texts = {}
    for name, m in merged["machines"].items():
        versions = ", ".join(f"{package} {number}" for package, number in m["versions"].items())
        place = f"{m['gpu']}, {m['cores']} cores, CUDA driver {m['driver_cuda'] / 1000:.1f}"
        text = f"{place}, commit {m['commit']}; {versions}"
        texts.setdefault(text, []).append(name)
    return [f"{', '.join(names)}: {text}." for text, names in texts.items()]


def write(merged: dict[str, Any]) -> str:
    """Write the whole page."""
    lines = ["# CUDA on NVIDIA H200", "", *machine_text(merged), "", CAPTION, "", "## Targets", ""]
    lines += table(["target", "asked", "worst", ""], targets(merged))
    header = ["model", "leaves (paper)", *COLUMNS, "V100", "XGBoost / glasswood", "GPUTreeShap / glasswood", "commit"]
    for kind, title in KINDS.items():
        lines += ["", f"## {title}, ms", "", *table(header, model_rows(merged["models"], kind))]
        farthest = {
            c: max((r[kind]["errors"].get(c, 0.0) for r in merged["models"].values()), default=0.0) for c in COLUMNS[1:]
        }
        lines += [
            "",
            "Farthest from glasswood, in spreads: " + ", ".join(f"{c} {e:.0e}" for c, e in farthest.items()) + ".",
        ]
    packing = [
        [name, HEURISTICS[h], f"{1e3 * p['s']:.2f}", f"{p['used']:.6f}", f"{p['bins']:,}"]
        for name, row in merged["models"].items()
        for h, p in row["packing"].items()
    ]
    lines += ["", "## Bin packing (table 5)", "", *table(["model", "heuristic", "ms", "utilisation", "bins"], packing)]
    lines += throughput_section(merged)
    lines += background_section(merged)
    lines += shap_section(merged)
    if wide := merged.get("wide"):
        lines += [
            "",
            "## Wide results",
            "",
            f"Interactions of 784 features, 10,000 rows, {wide['trees']} trees of {wide['leaves']:,} leaves, NumPy to "
            f"NumPy: {wide['result_bytes'] / 1e9:.1f} GB in {wide['s']:.1f} s with {wide['gpu_bytes'] / 1e9:.1f} GB of "
            f"GPU memory; their sums are within {wide['error']:.0e} of the values.",
        ]
    lines += beside_walk_section(merged["models"])
    lines += roofline_section(merged)
    lines += ["", "## Checks", "", *(f"- {name}: {text}" for name, text in merged["checks"].items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Merge a folder into PREFIX.json and PREFIX.md."""
    folder, prefix = sys.argv[1:]
    merged = merge(Path(folder))
    Path(f"{prefix}.json").write_text(json.dumps(merged, indent=1) + "\n")
    Path(f"{prefix}.md").write_text(write(merged))


if __name__ == "__main__":
    main()
