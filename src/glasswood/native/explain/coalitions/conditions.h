// What the host lays out for the coalitions on a GPU.
#pragma once

namespace glasswood {

// Codes of a column from `low` to `high` - 1 meet it; `bit` is the player's, or its place on the leaf's path. Padding
// of leaves has one that none meets.
struct LeafCondition {
  int column;
  unsigned low, high;
  int bit;
};

}  // namespace glasswood
