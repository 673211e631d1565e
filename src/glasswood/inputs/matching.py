"""The match of a frame's columns to a forest's features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glasswood.base.escapes import quoted, shown
from glasswood.base.wording import nearest_text, spelled
from glasswood.model.ensemble import TreeEnsemble

SHOWN = 8
"""Names listed in a message before it says how many more there are."""


def check_width(n_columns: int, forest: TreeEnsemble) -> None:
    """Raise ValueError unless X has as many columns as the forest has features."""
    if n_columns == forest.n_features:
        return
    plural = "" if n_columns == 1 else "s"
    columns = "the columns of forest.feature_names" if forest.feature_names else f"its {forest.n_features} features"
    raise ValueError(
        f"X has {n_columns} column{plural}, the forest was trained on {forest.n_features}; pass {columns} in that order"
    )


def column_order(names: Sequence[str], forest: TreeEnsemble, what: str = "X") -> list[int] | None:
    """Find the position in `names` of each feature; None where X, or `what`, has the forest's order already.

    Raises
    ------
    ValueError
        If only some names agree or none does, names repeat, or without names the number of columns differs. Columns
        that are numbered 0, 1, ... have no names.
    """
    wanted = forest.feature_names
    names = as_trained(names, forest)
    if wanted is None or tuple(names) == wanted:
        check_width(len(names), forest)
        return None
    if set(wanted).isdisjoint(names) and (what == "X" or are_numbers(names)):
        check_width(len(names), forest)
        _refuse_names(names, wanted)
        return None
    position = {name: i for i, name in enumerate(names)}
    refuse_repeated(names)
    lacking = [name for name in wanted if name not in position]
    extra = [name for name in names if name not in set(wanted)]
    if lacking or (extra and getattr(forest, "columns", "name") != "subset"):
        raise ValueError(_mismatch(lacking, extra, what))
    return [position[name] for name in wanted]


def as_trained(names: Iterable[str], forest: TreeEnsemble) -> list[str]:
    """Names as the forest has them, which LightGBM writes with _ for a space."""
    return spelled(names, forest.feature_names or ())


def are_numbers(names: Sequence[str]) -> bool:
    """Whether columns are numbered, as pandas.DataFrame(array) does."""
    return list(names) == [str(i) for i in range(len(names))]


def _refuse_names(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise ValueError unless columns are numbered."""
    if not are_numbers(names):
        raise ValueError(
            f"X has the columns {listed(names)}, none named like one of the forest's features {listed(wanted)}; rename "
            "them; or, if they are in the order of forest.feature_names, pass the model as glasswood.load(model, "
            "columns='position')"
        )


def refuse_repeated(names: Sequence[str]) -> None:
    """Raise ValueError if a name stands over several columns."""
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        raise ValueError(f"X has several columns named {listed(repeated)}; rename or drop all but one of each")


def _mismatch(lacking: Sequence[str], extra: Sequence[str], what: str) -> str:
    parts = []
    if lacking:
        parts.append(f"lacks {listed(lacking)}")
    if extra:
        parts.append(f"has {listed(extra)}, which the forest was not trained on{_meant(extra, lacking)}")
    if what != "X":
        advice = ", None where a value is missing"
    elif lacking:
        advice = (
            ", pass glasswood.load(model, columns='position') if its columns are in that order, or give the model your "
            "names: glasswood.load(model, names={the model's: yours})"
        )
    else:
        advice = ", or the model as glasswood.load(model, columns='subset'), which ignores others"
    return f"{what} {' and '.join(parts)}; pass exactly the columns of forest.feature_names{advice}"


def _meant(extra: Sequence[str], lacking: Sequence[str]) -> str:
    """Ask whether a lacking name was meant by the first of the others, whatever their letters' case."""
    by_case = {name.lower(): name for name in lacking}
    found = by_case.get(extra[0].lower())
    return shown(f" (did you mean {found}?)" if found else nearest_text(extra[0], lacking))


def listed(names: Iterable[str]) -> str:
    """Quote names, and count those beyond the first few."""
    quoted = [repr(name) for name in names]
    if len(quoted) > SHOWN:
        return f"{', '.join(quoted[:SHOWN])} and {len(quoted) - SHOWN} more"
    return ", ".join(quoted)


def index_of_feature(feature: int | str, n_features: int, names: tuple[str, ...] | None, what: str) -> int:
    """Index of a feature, or of a player, by name or number; `what` holds it."""
    if isinstance(feature, str):
        (name,) = spelled([feature], names or ())
        if names is None or name not in names:
            known = "the forest has no feature names, pass its number" if names is None else f"expected {listed(names)}"
            raise ValueError(f"no feature is called {quoted(feature)}; {known}")
        return names.index(name)
    if not hasattr(feature, "__index__") or isinstance(feature, bool) or getattr(feature, "ndim", False):
        raise TypeError(f"{shown(what)} holds {quoted(feature)}, expected indices or names")
    if not 0 <= feature < n_features:
        raise ValueError(f"{shown(what)} holds {feature}, expected 0 to {n_features - 1}")
    return int(feature)
