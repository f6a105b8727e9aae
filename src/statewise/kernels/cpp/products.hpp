// Products of a few rows with a matrix: in tiles with packed panels, or directly where a matrix is read once.

#pragma once

#include <algorithm>
#include <cstring>

namespace {

constexpr int LANE_BYTES = 32;
constexpr long LINE_BYTES = 64;
constexpr int TILE_ROWS = 6;
constexpr long DEPTH = 256;
// bytes of gradients that are kept until they are multiplied
constexpr long CACHE = 1 << 18;

template <class T> struct Simd {
    typedef T vec __attribute__((vector_size(LANE_BYTES), aligned(alignof(T)), may_alias));
    static constexpr int lanes = LANE_BYTES / sizeof(T);
    // columns of a panel: two vectors, so that six rows of them fill the registers
    static constexpr int width = 2 * lanes;
    static inline vec load(const T* p) { return *reinterpret_cast<const vec*>(p); }
    static inline void store(T* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
    static inline T sum(vec v) {
        T total = 0;
        for (int i = 0; i < lanes; ++i) total += v[i];
        return total;
    }
};

template <class T> inline long panels(long columns) { return (columns + Simd<T>::width - 1) / Simd<T>::width; }

// outs[r][0..live) (+)= sum_k value(r, k) * panel[k][0..width)
template <class T, int R, class Value>
inline void tile_of(Value of, const T* panel, T* const* outs, long depth, long live, bool add) {
    using S = Simd<T>;
    typename S::vec low[R], high[R];
    for (int r = 0; r < R; ++r) low[r] = high[r] = typename S::vec{};
    for (long k = 0; k < depth; ++k) {
        const typename S::vec first = S::load(panel + k * S::width), second = S::load(panel + k * S::width + S::lanes);
        for (int r = 0; r < R; ++r) {
            const T value = of(r, k);
            low[r] += value * first;
            high[r] += value * second;
        }
    }
    for (int r = 0; r < R; ++r) {
        if (live == S::width) {
            S::store(outs[r], add ? S::load(outs[r]) + low[r] : low[r]);
            S::store(outs[r] + S::lanes, add ? S::load(outs[r] + S::lanes) + high[r] : high[r]);
        } else {
            T line[S::width];
            S::store(line, low[r]);
            S::store(line + S::lanes, high[r]);
            for (long c = 0; c < live; ++c) outs[r][c] = add ? outs[r][c] + line[c] : line[c];
        }
    }
}

template <class T, class Value>
void tile(int rows, Value of, const T* panel, T* const* outs, long depth, long live, bool add) {
    switch (rows) {
        case 1: return tile_of<T, 1>(of, panel, outs, depth, live, add);
        case 2: return tile_of<T, 2>(of, panel, outs, depth, live, add);
        case 3: return tile_of<T, 3>(of, panel, outs, depth, live, add);
        case 4: return tile_of<T, 4>(of, panel, outs, depth, live, add);
        case 5: return tile_of<T, 5>(of, panel, outs, depth, live, add);
        default: return tile_of<T, 6>(of, panel, outs, depth, live, add);
    }
}

// the size of the next of several tiles of about the same size: a tile of one row would wait for each of its sums
inline int next_tile(long left) {
    const long tiles = (left + TILE_ROWS - 1) / TILE_ROWS;
    return static_cast<int>((left + tiles - 1) / tiles);
}

// outs[r][:] (+)= rows[r][:] @ M for a matrix M of `depth` rows that is packed in panels of columns
template <class T>
void multiply_packed(const T* const* rows, T* const* outs, long count, const T* packed, long depth, long columns, bool add) {
    constexpr int width = Simd<T>::width;
    for (long p = 0; p < panels<T>(columns); ++p) {
        const T* panel = packed + p * depth * width;
        const long live = std::min<long>(width, columns - p * width);
        for (long r = 0; r < count;) {
            T* at[TILE_ROWS];
            const int some = next_tile(count - r);
            for (int i = 0; i < some; ++i) at[i] = outs[r + i] + p * width;
            const T* const* from = rows + r;
            tile<T>(some, [from](int i, long k) { return from[i][k]; }, panel, at, depth, live, add);
            r += some;
        }
    }
}

// packs A^T (A is [out, in]): panel p holds, for each j, A[p * width + c][j]
template <class T> void pack_transposed(const T* A, long H, T* packed) {
    constexpr int width = Simd<T>::width;
    for (long p = 0; p < panels<T>(H); ++p) {
        T* panel = packed + p * H * width;
        const long live = std::min<long>(width, H - p * width);
        if (live < width) std::memset(panel, 0, sizeof(T) * H * width);
        for (long c = 0; c < live; ++c) {
            const T* row = A + (p * width + c) * H;
            for (long j = 0; j < H; ++j) panel[j * width + c] = row[j];
        }
    }
}

// packs rows given by pointers: panel p holds, for each row k, rows[k][p * width + c]
template <class T> void pack_rows(const T* const* rows, long count, long columns, T* packed) {
    constexpr int width = Simd<T>::width;
    for (long p = 0; p < panels<T>(columns); ++p) {
        T* panel = packed + p * count * width;
        const long live = std::min<long>(width, columns - p * width);
        for (long k = 0; k < count; ++k) {
            std::memcpy(panel + k * width, rows[k] + p * width, sizeof(T) * live);
            for (long c = live; c < width; ++c) panel[k * width + c] = 0;
        }
    }
}

// asks for numbers that are needed soon
template <class T> inline void fetch(const T* from, long count) {
    for (long i = 0; i < count; i += LINE_BYTES / static_cast<long>(sizeof(T))) __builtin_prefetch(from + i);
}

// outs[r][:] = A rows[r][:] without packing: for few rows, where a matrix is read once for each
template <class T> void multiply_direct(const T* const* rows, T* const* outs, long count, const T* A, long H) {
    using S = Simd<T>;
    long i = 0;
    for (; i + 4 <= H; i += 4) {
        const T *a0 = A + i * H, *a1 = a0 + H, *a2 = a1 + H, *a3 = a2 + H;
        if (i + 4 < H) fetch(a3 + H, std::min(4L, H - i - 4) * H);
        for (long r = 0; r < count; ++r) {
            typename S::vec s0{}, s1{}, s2{}, s3{};
            const T* x = rows[r];
            long j = 0;
            for (; j + S::lanes <= H; j += S::lanes) {
                const typename S::vec v = S::load(x + j);
                s0 += S::load(a0 + j) * v;
                s1 += S::load(a1 + j) * v;
                s2 += S::load(a2 + j) * v;
                s3 += S::load(a3 + j) * v;
            }
            T t0 = S::sum(s0), t1 = S::sum(s1), t2 = S::sum(s2), t3 = S::sum(s3);
            for (; j < H; ++j) t0 += a0[j] * x[j], t1 += a1[j] * x[j], t2 += a2[j] * x[j], t3 += a3[j] * x[j];
            outs[r][i] = t0, outs[r][i + 1] = t1, outs[r][i + 2] = t2, outs[r][i + 3] = t3;
        }
    }
    for (; i < H; ++i)
        for (long r = 0; r < count; ++r) {
            T total = 0;
            for (long j = 0; j < H; ++j) total += A[i * H + j] * rows[r][j];
            outs[r][i] = total;
        }
}

// outs[r][:] = A^T rows[r][:] without packing
template <class T> void multiply_direct_transposed(const T* const* rows, T* const* outs, long count, const T* A, long H) {
    for (long r = 0; r < count; ++r) std::memset(outs[r], 0, sizeof(T) * H);
    long i = 0;
    for (; i + 4 <= H; i += 4) {
        const T *a0 = A + i * H, *a1 = a0 + H, *a2 = a1 + H, *a3 = a2 + H;
        if (i + 4 < H) fetch(a3 + H, std::min(4L, H - i - 4) * H);
        for (long r = 0; r < count; ++r) {
            const T g0 = rows[r][i], g1 = rows[r][i + 1], g2 = rows[r][i + 2], g3 = rows[r][i + 3];
            T* __restrict__ out = outs[r];
            for (long j = 0; j < H; ++j) out[j] += g0 * a0[j] + g1 * a1[j] + g2 * a2[j] + g3 * a3[j];
        }
    }
    for (; i < H; ++i)
        for (long r = 0; r < count; ++r) {
            const T g = rows[r][i];
            T* __restrict__ out = outs[r];
            for (long j = 0; j < H; ++j) out[j] += g * A[i * H + j];
        }
}

}  // namespace
