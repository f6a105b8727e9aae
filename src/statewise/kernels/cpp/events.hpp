// Real-valued inputs: each event, a row at a time, has matrices of its own, blocks of size b on a diagonal.
//
//     h_t = A_t h_{t-1} (+ offset_t), and, if asked to, sqrt(H) h_t / |h_t|
//
// Matrices come a piece of time after the other, [row, time of the piece, block, out, in]; states, offsets and gradients
// are those of the whole sequence, [row, time, H]. A state stays as it is past the length of its row.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "products.hpp"
#include "scale.hpp"

namespace {

// smaller blocks are not worth four rows at a time
constexpr long FEW_ROWS = 8;

template <class T> void multiply_blocks(const T* A, const T* from, T* to, long N, long b) {
    if (b >= FEW_ROWS) {
        for (long n = 0; n < N; ++n) {
            const T* row = from + n * b;
            T* out = to + n * b;
            multiply_direct(&row, &out, 1, A + n * b * b, b);
        }
        return;
    }
    for (long n = 0; n < N; ++n)
        for (long i = 0; i < b; ++i) {
            const T* a = A + (n * b + i) * b;
            T total = 0;
            for (long j = 0; j < b; ++j) total += a[j] * from[n * b + j];
            to[n * b + i] = total;
        }
}

// makes the mean square 1 and returns the factor; a state of zeros stays
template <class T> T normalise_row(T* h, long H) {
    const T most = power_above(h, H);
    T power = 0;
    for (long i = 0; i < H; ++i) h[i] /= most, power += h[i] * h[i];
    const T factor = power > 0 || power != power ? std::sqrt(T(H) / power) : T(1);
    for (long i = 0; i < H; ++i) h[i] *= factor;
    return factor / most;
}

template <class T>
void events_forward(const T* matrices, const T* offset, const int64_t* lengths, const T* h0, T* states, T* factors,
                    long B, long time, long begin, long count, long N, long b) {
    const long H = N * b;
    for (long r = 0; r < B; ++r)
        for (long t = begin; t < begin + count; ++t) {
            const long event = r * time + t;
            const T* h = t ? states + (event - 1) * H : h0 + r * H;
            T* to = states + event * H;
            if (lengths && t >= lengths[r]) {
                std::memcpy(to, h, sizeof(T) * H);
                continue;
            }
            multiply_blocks(matrices + (r * count + t - begin) * H * b, h, to, N, b);
            if (offset)
                for (long i = 0; i < H; ++i) to[i] += offset[event * H + i];
            if (factors) factors[event] = normalise_row(to, H);
        }
}

// next += A^T g and A = g h^T, in one pass over A
template <class T> void exchange(T* A, const T* g, const T* h, T* next, long b) {
    long i = 0;
    for (; i + 4 <= b; i += 4) {
        const T g0 = g[i], g1 = g[i + 1], g2 = g[i + 2], g3 = g[i + 3];
        T *__restrict__ a0 = A + i * b, *__restrict__ a1 = a0 + b, *__restrict__ a2 = a1 + b, *__restrict__ a3 = a2 + b;
        T* __restrict__ out = next;
        for (long j = 0; j < b; ++j) {
            out[j] += g0 * a0[j] + g1 * a1[j] + g2 * a2[j] + g3 * a3[j];
            a0[j] = g0 * h[j], a1[j] = g1 * h[j], a2[j] = g2 * h[j], a3[j] = g3 * h[j];
        }
    }
    for (; i < b; ++i)
        for (long j = 0; j < b; ++j) {
            T* a = A + i * b + j;
            next[j] += g[i] * *a;
            *a = g[i] * h[j];
        }
}

// Goes back through a piece. Matrices become their gradients; `running` is the gradient of the state after the piece,
// and becomes that of the state before it; `offset` takes the gradients of offsets.
template <class T>
void events_backward(T* matrices, const int64_t* lengths, const T* h0, const T* states, const T* factors, const T* grad,
                     T* running, T* offset, long B, long time, long begin, long count, long N, long b) {
    const long H = N * b;
    std::vector<T> whole(H);
    T* g = whole.data();
    for (long r = 0; r < B; ++r) {
        T* next = running + r * H;
        for (long t = begin + count - 1; t >= begin; --t) {
            const long event = r * time + t;
            T* A = matrices + (r * count + t - begin) * H * b;
            const T *before = t ? states + (event - 1) * H : h0 + r * H, *here = states + event * H;
            for (long i = 0; i < H; ++i) g[i] = next[i] + grad[event * H + i];
            if (lengths && t >= lengths[r]) {
                std::memcpy(next, g, sizeof(T) * H);
                std::memset(A, 0, sizeof(T) * H * b);
                if (offset) std::memset(offset + event * H, 0, sizeof(T) * H);
                continue;
            }
            if (factors) {
                T along = 0;
                for (long i = 0; i < H; ++i) along += g[i] * here[i];
                along /= H;
                for (long i = 0; i < H; ++i) g[i] = (g[i] - along * here[i]) * factors[event];
            }
            if (offset) std::memcpy(offset + event * H, g, sizeof(T) * H);
            std::memset(next, 0, sizeof(T) * H);
            for (long n = 0; n < N; ++n) exchange(A + n * b * b, g + n * b, before + n * b, next + n * b, b);
        }
    }
}

}  // namespace
