"""Curves and surfaces: what one column, or two together, add to a tree or an equation.

`bins` divides columns, `boosting` fits curves and surfaces to what margins leave, `shapes` makes few steps of them that
have no main effect left, and `trees` makes trees of a TreeEnsemble of these.
"""
