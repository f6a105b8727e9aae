// Diagonals and small blocks, interleaved: the same entry of all blocks side by side.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "scale.hpp"

namespace {

// Diagonals and small blocks, for all blocks n at once: coefficients [b][b][N] and states [b][N], so that the innermost
// loop runs over blocks. Coefficients are those of a token, or, without tokens, those of each (row, time).
// One row; returns its last state. With care, sums that are not finite are computed again in double: products that
// overflow may have opposite signs.
template <class T, int FIXED, bool CAREFUL>
const T* small_blocks_row(const T* coefficients, const int64_t* tokens, const T* h, T* out, T* scales, long r, long time,
                          long N, long b, long every) {
    b = FIXED ? FIXED : b;
    const long H = N * b;
    for (long t = 0; t < time; ++t) {
        const long event = r * time + t;
        const T* A = coefficients + (tokens ? tokens[event] : event) * H * b;
        T* __restrict__ to = out + event * H;
        for (long i = 0; i < b; ++i)
            for (long n = 0; n < N; ++n) {
                T total = A[i * b * N + n] * h[n];
                for (long j = 1; j < b; ++j) total += A[(i * b + j) * N + n] * h[j * N + n];
                to[i * N + n] = total;
            }
        if (CAREFUL && !all_finite(to, H))
            for (long i = 0; i < b; ++i)
                for (long n = 0; n < N; ++n) {
                    double total = 0;
                    for (long j = 0; j < b; ++j) total += double(A[(i * b + j) * N + n]) * double(h[j * N + n]);
                    to[i * N + n] = static_cast<T>(total);
                }
        if (every && (t + 1) % every == 0) {
            const T scale = scales[event] = 1 / power_above(to, H);
            for (long i = 0; i < H; ++i) to[i] *= scale;
        }
        h = to;
    }
    return h;
}

template <class T, int FIXED>
void small_blocks_forward(const T* coefficients, const int64_t* tokens, const T* h0, T* out, T* scales, long B,
                          long time, long N, long size, long every) {
    const long b = FIXED ? FIXED : size, H = N * b;
    const bool checked = std::is_same_v<T, float> && b > 1;
    for (long r = 0; r < B; ++r) {
        const T* first = h0 + r * H;
        const T* last = small_blocks_row<T, FIXED, false>(coefficients, tokens, first, out, scales, r, time, N, b, every);
        // what is not finite stays so: the last state tells whether any was
        if (checked && !all_finite(last, H))
            small_blocks_row<T, FIXED, true>(coefficients, tokens, first, out, scales, r, time, N, b, every);
    }
}

// gradients of a token's coefficients add up; `gradient` begins as zeros
template <class T, int FIXED>
void small_blocks_backward(const T* coefficients, const int64_t* tokens, const T* h0, const T* out, const T* scales,
                           const T* grad, T* gradient, T* first, long B, long time, long N, long size, long every) {
    const long b = FIXED ? FIXED : size, H = N * b;
    std::vector<T> whole(H);
    for (long r = 0; r < B; ++r) {
        T* __restrict__ running = first + r * H;
        T* __restrict__ g = whole.data();
        std::memset(running, 0, sizeof(T) * H);
        for (long t = time - 1; t >= 0; --t) {
            const long event = r * time + t, at = (tokens ? tokens[event] : event) * H * b;
            const T* before = t ? out + (event - 1) * H : h0 + r * H;
            const T* A = coefficients + at;
            T* __restrict__ d = gradient + at;
            const T scale = every && (t + 1) % every == 0 ? scales[event] : T(1);
            for (long i = 0; i < H; ++i) g[i] = (grad[event * H + i] + running[i]) * scale;
            for (long i = 0; i < b; ++i)
                for (long j = 0; j < b; ++j)
                    for (long n = 0; n < N; ++n) d[(i * b + j) * N + n] += g[i * N + n] * before[j * N + n];
            for (long j = 0; j < b; ++j)
                for (long n = 0; n < N; ++n) {
                    T total = A[j * N + n] * g[n];
                    for (long i = 1; i < b; ++i) total += A[(i * b + j) * N + n] * g[i * N + n];
                    running[j * N + n] = total;
                }
        }
    }
}

#define BY_SIZE(FUNCTION, ...)                          \
    switch (b) {                                        \
        case 1: return FUNCTION<T, 1>(__VA_ARGS__);     \
        case 2: return FUNCTION<T, 2>(__VA_ARGS__);     \
        case 3: return FUNCTION<T, 3>(__VA_ARGS__);     \
        case 4: return FUNCTION<T, 4>(__VA_ARGS__);     \
        default: return FUNCTION<T, 0>(__VA_ARGS__);    \
    }

template <class T>
void small_blocks_forward_any(const T* a, const int64_t* k, const T* h, T* o, T* c, long B, long t, long N, long b,
                              long e) {
    BY_SIZE(small_blocks_forward, a, k, h, o, c, B, t, N, b, e)
}

template <class T>
void small_blocks_backward_any(const T* a, const int64_t* k, const T* h, const T* o, const T* c, const T* g, T* d, T* f,
                               long B, long t, long N, long b, long e) {
    BY_SIZE(small_blocks_backward, a, k, h, o, c, g, d, f, B, t, N, b, e)
}

}  // namespace
