"""The experiment of Spencer (2011), table 1 and section 6: one small tree on 65,536 records of Image Segmentation.

    python benchmarks/evaluate/segmentation.py --data image_segmentation.parquet --results FOLDER

Outer times take host records to host leaves; inner times are those of the kernels on records that are on the GPU and
encoded. The tree has 31 nodes and 16 leaves as the paper's, grown by scikit-learn. The same for balanced and degenerate
trees of other depths, with records in random order and sorted by the leaf that they reach. Results of all functions
are compared.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import silva
from silva.choice import Choice, can_run

N_RECORDS, N_LEAVES, RUNS, CALLS = 65_536, 16, 15, 10
PAPER_RATIO = 404.466 / 538.235
DEPTHS = (3, 4, 5, 6, 7, 8, 12, 16)
SETTINGS = {"by_sample": (0,), "by_node": (1, 2, 3), "windowed": (3, 4, 5)}


def read_records(path):
    """Rows and classes of the data set, and the paper's 65,536 records: shuffled, with repetitions."""
    import pandas

    frame = pandas.read_parquet(path)
    rows, classes = frame.iloc[:, :-1].to_numpy(np.float32), frame.iloc[:, -1].astype("category").cat.codes
    chosen = np.random.default_rng(0).integers(0, len(rows), N_RECORDS)
    return rows, classes.to_numpy(), rows[chosen]


def paper_tree(rows, classes):
    from sklearn.tree import DecisionTreeClassifier

    return silva.load(DecisionTreeClassifier(max_leaf_nodes=N_LEAVES, random_state=0).fit(rows, classes))


def grown_tree(rows, depth, degenerate):
    """A tree of medians of the rows that reach each node: complete, or a path with a leaf beside each node.

    A path keeps nine tenths of the rows at each node, so that the mean depth grows with the depth.
    """
    from tests.strategies import Node, flatten

    rng = np.random.default_rng(depth)

    def grow(part, levels):
        if levels == 0:
            return Node(value=float(rng.normal()))
        feature = int(rng.integers(rows.shape[1]))
        column = part[:, feature] if len(part) else rows[:, feature]
        threshold = float(np.float32(np.quantile(column, 0.1 if degenerate else 0.5)))
        left = part[part[:, feature] < threshold]
        right = part[part[:, feature] >= threshold]
        children = (grow(left, 0 if degenerate else levels - 1), grow(right, levels - 1))
        return Node(feature=feature, threshold=threshold, children=children)

    return flatten([grow(rows, depth)], rows.shape[1])


def seconds(call, n_calls=CALLS):
    call()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(n_calls):
            call()
        times.append((time.perf_counter() - start) / n_calls)
    return float(np.median(times))


def kernel_microseconds(forest, records, choice):
    """Time of the kernel of an algorithm as the paper has it: launches of one graph, by events."""
    import cupy

    walks = forest.cuda_evaluator.nodes
    codes = walks.encode(records)
    walks.walk(codes, len(records), choice)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        walks.walk(codes, len(records), choice)
        stream.synchronize()
        stream.begin_capture()
        for _ in range(CALLS):
            walks.walk(codes, len(records), choice)
        graph = stream.end_capture()
        times = []
        for _ in range(RUNS):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            graph.launch(stream)
            end.record()
            end.synchronize()
            times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / CALLS)
    return float(np.median(times))


def measure(forest, records, devices, order):
    """Microseconds of each function, by device."""
    expected = forest.predict(records, output="leaf", algorithm="serial", device="cpu")
    result = {}
    for device in devices:
        names = ["serial"] if device == "cpu" else []
        for algorithm in [*names, *(name for name in SETTINGS if can_run(forest, name))]:
            found = forest.predict(records, output="leaf", algorithm=algorithm, device=device)
            np.testing.assert_array_equal(found, expected)
            call = lambda a=algorithm, d=device: forest.predict(records, output="leaf", algorithm=a, device=d)  # noqa: E731
            result[f"{device} {algorithm}"] = {"outer": 1e6 * seconds(call, 3)} if order == "paper" else {}
            if device == "cuda":
                import cupy

                on_gpu = cupy.asarray(records)
                inner = {
                    s: kernel_microseconds(forest, on_gpu, Choice(1, "cuda", algorithm, s)) for s in SETTINGS[algorithm]
                }
                best = min(inner, key=inner.get)
                result[f"{device} {algorithm}"] |= {"inner": inner[best], "setting": best}
            else:
                result[f"{device} {algorithm}"]["inner"] = 1e6 * seconds(call, 3)
    return result


def report(name, forest, times):
    depth = forest.depth
    line = [f"{name}: depth {depth}, {forest.most_splits} splits"]
    line += [f"{key} {value['inner']:.1f}" for key, value in times.items()]
    for device in ("cpu", "cuda"):
        if f"{device} by_node" in times:
            ratio = times[f"{device} by_node"]["inner"] / times[f"{device} by_sample"]["inner"]
            line.append(f"{device} by_node / by_sample {ratio:.2f}")
    print(", ".join(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"])
    options = parser.parse_args()
    rows, classes, records = read_records(options.data)
    trees = {"paper": paper_tree(rows, classes)}
    for depth in DEPTHS:
        trees[f"balanced {depth}"] = grown_tree(rows, depth, False)
        trees[f"degenerate {depth}"] = grown_tree(rows, depth, True)
    results = []
    for name, forest in trees.items():
        leaves = forest.predict(records, output="leaf", device="cpu")[:, 0]
        for order in ("paper",) if name == "paper" else ("random", "ordered"):
            given = records if order != "ordered" else records[np.argsort(leaves, kind="stable")]
            times = measure(forest, given, options.devices, order)
            report(f"{name}, {order}", forest, times)
            shape = {"depth": forest.depth, "splits": forest.most_splits}
            results.append({"tree": name, "order": order, **shape, "microseconds": times})
    text = json.dumps({"records": N_RECORDS, "paper_ratio": PAPER_RATIO, "results": results}, indent=1)
    (options.results / "segmentation.json").write_text(text)


if __name__ == "__main__":
    main()
