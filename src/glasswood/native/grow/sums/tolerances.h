// When a column of a leaf's model has no part of its own: the same for the CPU and for kernels.
#pragma once

namespace glasswood {

constexpr double kConstant = 1e-13;   // a centred sum of squares below this part of the raw one is rounding
constexpr double kCollinear = 1e-10;  // a pivot below this part of the centred sum of squares too

}  // namespace glasswood
