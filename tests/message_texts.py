"""Which values may enter a message as they are: a small analysis of where the texts of raises and warnings come from.

A value is harmless if it is a number, a type's name, a shape, a literal or constant of the library, or what an escaping
function returns; names are followed to their assignments and loops, parameters to every call of the function in the
package, calls of the package's own functions to what these return. All else is a text that somebody may have written.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import glasswood

SOURCE = Path(glasswood.__file__).parent

ESCAPING = {"shown", "quoted", "short", "listed", "markup", "comment", "python_literal", "sorted_text"}
NUMBERS = {
    "len",
    "int",
    "float",
    "bool",
    "round",
    "abs",
    "sum",
    "argmax",
    "argmin",
    "ndim",
    "prod",
    "count_nonzero",
    "flatnonzero",
    "argwhere",
    "unravel_index",
}
NAMING = {"strerror", "type_name", "counted", "count_text", "number_text", "leaves_text", "percent_text", "tick_texts"}
KEEPING = """
DeviceError MemoryError NotImplementedError OSError TypeError ValueError capitalize chain dict difference
enumerate format fromkeys get item items iter join keys list lower lstrip map max min next pairwise partition
pop removeprefix removesuffix replace reversed rpartition rstrip set sorted split str strip title tolist tuple
union upper values zip
"""
"""Functions and methods whose result is harmless where what they are given is."""

SHAPES = {
    "shape",
    "dtype",
    "ndim",
    "size",
    "nbytes",
    "itemsize",
    "__name__",
    "__module__",
    "__qualname__",
    "strides",
    "errno",
}
TYPES = re.compile(
    r"^(int|float|bool|complex|bytes|None|np\.\w+|Array|Floats|Ints|IntArray|FloatArray|NDArray.*|type)$"
)
BUILT_IN = {"__version__", "True", "False", "None", "int", "float", "str", "np", "shown", "repr", "len"}
NUMERIC_SPEC = re.compile(r"^[,_+]?[,0-9]*\.?\d*[defgn%]?$")

ERRORS = ("Error", "Exit", "Exception")

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Module:
    """A file, its functions, and the parents of its nodes."""

    name: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def __post_init__(self):
        self.nodes = [self.tree]
        for node in self.nodes:  # which grows
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)

    def scope_of(self, node):
        """Innermost function or module around a node."""
        node = self.parents.get(node)
        while node is not None and not isinstance(node, FUNCTIONS | ast.Module):
            node = self.parents.get(node)
        return node


class Package:
    """All modules, with the definitions and calls of every name."""

    def __init__(self, sources):
        self.modules = [Module(name, ast.parse(text)) for name, text in sources]
        self.defined, self.calls, self.fields = {}, {}, {}
        self.known, self.bound, self.assumed = {}, {}, set()
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.defined.setdefault(node.name, []).append((module, node))
                elif isinstance(node, ast.ClassDef):
                    self.defined.setdefault(node.name, []).append((module, node))
                    for one in node.body:
                        if isinstance(one, ast.AnnAssign):
                            self.fields.setdefault(ast.unparse(one.target), []).append(one.annotation)
                        elif isinstance(one, ast.FunctionDef):
                            self.fields.setdefault(one.name, []).append(one.returns)
                elif isinstance(node, ast.Call):
                    self.calls.setdefault(called(node), []).append((module, node))

    def texts_of(self, node):
        """Texts that a statement or call shows people."""
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            made = self.defined.get(called(node.exc), [])
            if any(isinstance(one, ast.FunctionDef) for _, one in made):
                return [node.exc]
            return [] if called(node.exc).endswith(ERRORS) else node.exc.args
        if not isinstance(node, ast.Call):
            return []
        if called(node).endswith(ERRORS):
            return node.args
        if called(node) == "warn" and ast.unparse(node.func) == "warnings.warn":
            return node.args[:1]
        to_terminal = any(word.arg == "file" and "stderr" in ast.unparse(word.value) for word in node.keywords)
        return node.args if to_terminal else []

    def messages(self):
        """Every value that is put into the text of a raise, a warning or a line of a terminal: (module, node)."""
        for module in self.modules:
            for node in module.nodes:
                for text in self.texts_of(node):
                    yield from ((module, value) for value in self.parts(text))

    def is_raised(self, module, node):
        """Whether a text is that of an error that is raised or made, not of a warning or a line."""
        while node is not None and not isinstance(node, ast.Raise) and not called(node).endswith(ERRORS):
            node = module.parents.get(node)
        return node is not None

    def parts(self, text):
        """What a text is put together from."""
        if isinstance(text, ast.JoinedStr):
            return [value for value in text.values if isinstance(value, ast.FormattedValue)]
        if isinstance(text, ast.BinOp | ast.IfExp | ast.BoolOp):
            children = [child for child in ast.iter_child_nodes(text) if isinstance(child, ast.expr)]
            children = children if not isinstance(text, ast.IfExp) else [text.body, text.orelse]
            return [part for child in children for part in self.parts(child)]
        return [] if isinstance(text, ast.Constant) else [text]

    def harmless(self, module, node, seen=frozenset()):
        """Whether a value can hold no text but the library's own, or an escaped one."""
        key = id(node)
        if key in seen:
            self.assumed.add(key)
            return True  # what depends on itself is decided by the rest
        if key in self.known:
            return self.known[key]
        before, self.assumed = self.assumed, set()
        found = self._harmless(module, node, seen | {key})
        assumed = self.assumed - {key}
        self.assumed = before | assumed
        if not (found and assumed):
            self.known[key] = found
        return found

    def _harmless(self, module, node, seen):
        def all_harmless(nodes):
            return all(self.harmless(module, one, seen) for one in nodes)

        match node:
            case ast.Constant() | ast.Compare() | ast.Slice():
                return True
            case ast.FormattedValue(value=value, format_spec=spec):
                form = (
                    "".join(str(part.value) for part in spec.values if isinstance(part, ast.Constant)) if spec else ""
                )
                is_number = bool(form) and NUMERIC_SPEC.match(form) and form[-1] in ",defgn%"
                return is_number or self.harmless(module, value, seen)
            case ast.JoinedStr(values=values):
                return all_harmless(values)
            case ast.IfExp(body=body, orelse=orelse):
                return all_harmless([body, orelse])
            case ast.BoolOp(values=values):
                return all_harmless(values)
            case ast.BinOp(left=left, right=right):
                return (isinstance(node.op, ast.Mod) and self.number(left)) or all_harmless([left, right])
            case ast.UnaryOp():
                return True
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                return self._contents(module, node, seen)
            case ast.GeneratorExp():
                return self._contents(module, node, seen)
            case ast.Starred(value=value) | ast.NamedExpr(value=value):
                return self.harmless(module, value, seen)
            case ast.Subscript(value=value):
                return self.harmless(module, value, seen)
            case ast.Attribute(value=value, attr=attr):
                return attr in SHAPES or attr.startswith("n_") or attr.isupper() or self._field(attr)
            case ast.Name(id=name):
                return name in BUILT_IN or name.strip("_").isupper() or self._name(module, node, name, seen)
            case ast.Call():
                return self._call(module, node, seen)
        return False

    def number(self, node):
        return isinstance(node, ast.Constant) and not isinstance(node.value, str)

    def _contents(self, module, node, seen):
        match node:
            case ast.Dict(keys=keys, values=values):
                return all(self.harmless(module, one, seen) for one in [*filter(None, keys), *values])
            case ast.DictComp(key=key, value=value):
                return self.harmless(module, key, seen) and self.harmless(module, value, seen)
            case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.harmless(module, elt, seen)
        return all(self.harmless(module, one, seen) for one in node.elts)

    def _call(self, module, node, seen):
        name = called(node)
        given = [*node.args, *(word.value for word in node.keywords)]
        if name in ESCAPING | NUMBERS | NAMING:
            return True
        if isinstance(node.func, ast.Attribute) and name in {"min", "max", "sum", "any", "all", "index", "count"}:
            return True
        if isinstance(node.func, ast.Name) and name == "map":
            function, *rest = node.args
            return ast.unparse(function).rpartition(".")[2] in ESCAPING | NUMBERS | NAMING or all(
                self.harmless(module, one, seen) for one in rest
            )
        if name in KEEPING.split():
            base = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return all(self.harmless(module, one, seen) for one in [*base, *given] if not isinstance(one, ast.Lambda))
        functions = self.defined.get(name, [])
        own = [one for one in functions if one[0] is module and isinstance(node.func, ast.Name)]
        functions = own or functions
        return bool(functions) and all(self._returns(where, function, seen) for where, function in functions)

    def _returns(self, module, function, seen):
        if isinstance(function, ast.ClassDef):
            return False
        if annotated(function.returns):
            return True
        returned = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Return | ast.Yield) and one.value is not None and module.scope_of(one) is function
        ]
        return bool(returned) and all(self.harmless(module, one, seen) for one in returned)

    def _field(self, attr):
        """Whether a field or property is annotated as a number wherever a class has it."""
        found = self.fields.get(attr, [])
        return bool(found) and all(map(annotated, found))

    def _name(self, module, node, name, seen):
        """Whether all that a name can stand for is harmless, in the innermost scope that binds it."""
        scope = module.scope_of(node)
        while scope is not None:
            if scope not in self.bound:
                self.bound[scope] = bindings(scope)
            if bound := self.bound[scope].get(name):
                return all(self._binding(module, scope, one, name, seen) for one in bound)
            scope = module.scope_of(scope)
        return False

    def _binding(self, module, scope, bound, name, seen):
        match bound:
            case ast.arg():
                return annotated(bound.annotation) or self._arguments(module, scope, bound, seen)
            case ast.AnnAssign(annotation=annotation, value=value):
                return annotated(annotation) or (value is not None and self.harmless(module, value, seen))
            case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.NamedExpr(value=value):
                return self.harmless(module, value, seen)
            case ast.For(iter=values, target=target) | ast.comprehension(iter=values, target=target):
                first = target.elts[0] if isinstance(target, ast.Tuple) else None
                is_count = isinstance(first, ast.Name) and first.id == name and called(values) == "enumerate"
                return is_count or called(values) == "range" or self.harmless(module, values, seen)
        return False

    def calls_of(self, module, name, is_method):
        """Calls of a name that may mean this function: not those of another one that the calling module defines."""
        for where, call in self.calls.get(name, []):
            if isinstance(call.func, ast.Attribute):
                if is_method or not name.startswith("_"):
                    yield where, call
            elif where is module or not any(one[0] is where for one in self.defined[name]):
                yield where, call

    def _arguments(self, module, function, parameter, seen):
        """Whether every call in the package gives a parameter something harmless; public functions may be given all."""
        if isinstance(function, ast.Lambda):
            return False
        of_class = module.parents.get(function)
        name = function.name
        if isinstance(of_class, ast.ClassDef) and name == "__init__":
            name = of_class.name
        calls = list(self.calls_of(module, name, isinstance(of_class, ast.ClassDef)))
        passed = [argument_of(call, function, parameter, isinstance(of_class, ast.ClassDef)) for _, call in calls]
        if not calls or any(one is None for one in passed):
            return False
        return all(self.harmless(where, one, seen) for (where, _), one in zip(calls, passed, strict=True))


def called(node):
    """Last name of what a call calls; empty for other nodes."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def annotated(annotation):
    """Whether a type holds no text."""
    if annotation is None:
        return False
    parts = ast.unparse(annotation).split(" | ")
    return all(
        TYPES.match(part)
        or part.startswith(("Literal[", "tuple[int", "NDArray", "list[int", "list[float", "Sequence[int"))
        for part in parts
    )


def bindings(scope):
    """Where a scope, functions in it left out, gives its names their values."""
    found = {}
    if not isinstance(scope, ast.Module):
        given = scope.args
        for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
            if one is not None:
                found.setdefault(one.arg, []).append(one)
    for node in own_nodes(scope):
        if isinstance(node, ast.ExceptHandler) and node.name:
            found.setdefault(node.name, []).append(node)
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.comprehension):
            targets = [node.target]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            targets = [node.optional_vars]
        else:
            continue
        for name in {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}:
            found.setdefault(name, []).append(value_for(node, name))
    return found


def own_nodes(scope):
    """All nodes of a scope but those of functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from own_nodes(child)


def value_for(node, name):
    """The binding of one name, where several are bound together part by part."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        for target, value in zip(node.targets[0].elts, node.value.elts, strict=False):
            if isinstance(target, ast.Name) and target.id == name:
                return ast.Assign(targets=[target], value=value)
    return node


def argument_of(call, function, parameter, is_method):
    """Expression that a call gives a parameter, its default if none; None where the call unpacks arguments."""
    given = function.args
    for word in call.keywords:
        if word.arg == parameter.arg:
            return word.value
    names = [one.arg for one in [*given.posonlyargs, *given.args]]
    decorated = any("staticmethod" in ast.unparse(one) for one in function.decorator_list)
    if is_method and not decorated:
        names = names[1:]
    if parameter.arg in names and names.index(parameter.arg) < len(call.args):
        before = call.args[: names.index(parameter.arg) + 1]
        return None if any(isinstance(one, ast.Starred) for one in before) else before[-1]
    if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
        return None
    defaults = dict(zip(names[::-1], given.defaults[::-1], strict=False))
    defaults |= {one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)}
    return defaults.get(parameter.arg)


def package():
    """Everything of glasswood."""
    return Package([(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in sorted(SOURCE.rglob("*.py"))])
