// By what a row is divided so that its numbers stay near one.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

// whether no number is infinite or none
template <class T> bool all_finite(const T* row, long H) {
    return std::all_of(row, row + H, [](T x) { return std::isfinite(x); });
}

// the least power of two above all entries: dividing by it rounds nothing
template <class T> T power_above(const T* row, long H) {
    T most = 0;
    for (long i = 0; i < H; ++i) most = std::max(most, std::abs(row[i]));
    if (!(most > 0) || !std::isfinite(most)) return T(1);
    int exponent;
    std::frexp(most, &exponent);
    return std::ldexp(T(1), std::clamp(exponent, 1 - std::numeric_limits<T>::max_exponent + 2,
                                       std::numeric_limits<T>::max_exponent - 1));
}

}  // namespace
