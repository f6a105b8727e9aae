// Adam in one pass through memory.

#pragma once

#include <cmath>

namespace {

// decoupled weight decay, then Adam: one pass through memory; each member has its rate, and none stays as it is
template <class T>
void adam(T* __restrict__ p, const T* __restrict__ g, T* __restrict__ m, T* __restrict__ v, long members, long count,
          const double* keep, const double* rate, double beta1, double beta2, double root, double eps) {
    const T b2 = T(beta2), c1 = T(1 - beta1), c2 = T(1 - beta2), s = T(root), e = T(eps);
    for (long k = 0; k < members; ++k, p += count, g += count, m += count, v += count) {
        if (std::isnan(rate[k])) continue;
        const T held = T(keep[k]), r = T(rate[k]);
        for (long i = 0; i < count; ++i) {
            const T first = m[i] + c1 * (g[i] - m[i]), second = b2 * v[i] + c2 * g[i] * g[i];
            m[i] = first;
            v[i] = second;
            p[i] = held * p[i] - r * first / (std::sqrt(second) / s + e);
        }
    }
}

}  // namespace
