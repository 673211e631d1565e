"""The steps after a search: prune the tree, refit its leaves, make a Forest of it, compute intervals."""
