// h_t = A(x_t) h_{t-1} over time, forward and backward, for float and double.
// Plain C interfaces, no dependency: compiled once for this machine and called through ctypes (see native.py).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr int LANE_BYTES = 32;
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

// outs[r][:] = A rows[r][:] without packing: for few rows, where a matrix is read once for each
template <class T> void multiply_direct(const T* const* rows, T* const* outs, long count, const T* A, long H) {
    using S = Simd<T>;
    long i = 0;
    for (; i + 4 <= H; i += 4) {
        const T *a0 = A + i * H, *a1 = a0 + H, *a2 = a1 + H, *a3 = a2 + H;
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

// rows of one time step in the order of their tokens
struct Groups {
    std::vector<long> order, begin;
    Groups(long V, long B) : order(B), begin(V + 1) {}
    void sort(const int64_t* tokens, long V, long B) {
        std::fill(begin.begin(), begin.end(), 0);
        for (long r = 0; r < B; ++r) ++begin[tokens[r] + 1];
        for (long v = 0; v < V; ++v) begin[v + 1] += begin[v];
        std::vector<long> next(begin.begin(), begin.end() - 1);
        for (long r = 0; r < B; ++r) order[next[tokens[r]]++] = r;
    }
};

// a table of matrices, packed where each is used by enough rows for that to pay
template <class T> struct Table {
    const T* matrices;
    long V, H;
    bool packs, transposed;
    std::vector<T> packed;

    Table(const T* matrices, long V, long H, bool transposed, bool packs)
        : matrices(matrices), V(V), H(H), packs(packs), transposed(transposed) {
        if (!packs) return;
        const long each = panels<T>(H) * Simd<T>::width * H;
        packed.resize(V * each);
        std::vector<const T*> rows(H);
        for (long v = 0; v < V; ++v) {
            const T* A = matrices + v * H * H;
            if (transposed) {
                for (long i = 0; i < H; ++i) rows[i] = A + i * H;
                pack_rows(rows.data(), H, H, packed.data() + v * each);
            } else {
                pack_transposed(A, H, packed.data() + v * each);
            }
        }
    }

    void multiply(long v, const T* const* rows, T* const* outs, long count) const {
        if (packs)
            multiply_packed(rows, outs, count, packed.data() + v * panels<T>(H) * Simd<T>::width * H, H, H, false);
        else if (transposed)
            multiply_direct_transposed(rows, outs, count, matrices + v * H * H, H);
        else
            multiply_direct(rows, outs, count, matrices + v * H * H, H);
    }
};

// Moves rows through their tokens from one time to another, in no common step: a row waits for no other. The matrix that
// most rows wait for comes next, so that each is read for as many rows as possible; this is for few rows per token.
// `from(t, r)` and `to(t, r)` are where a row is read and written, `after(t, r)` is called once that is done.
template <class T, class From, class To, class After>
void move_freely(const Table<T>& table, const int64_t* tokens, long B, long begin, long end, bool backwards, From from,
                 To to, After after) {
    std::vector<std::vector<long>> waiting(table.V);
    std::vector<long> time(B, backwards ? end - 1 : begin), taken;
    std::vector<const T*> rows;
    std::vector<T*> outs;
    for (long r = 0; r < B && begin < end; ++r) waiting[tokens[time[r] * B + r]].push_back(r);
    for (long left = begin < end ? B * (end - begin) : 0; left > 0;) {
        long v = 0;
        for (long u = 1; u < table.V; ++u)
            if (waiting[u].size() > waiting[v].size()) v = u;
        taken.clear();
        taken.swap(waiting[v]);
        rows.clear(), outs.clear();
        for (long r : taken) rows.push_back(from(time[r], r)), outs.push_back(to(time[r], r));
        table.multiply(v, rows.data(), outs.data(), static_cast<long>(taken.size()));
        left -= static_cast<long>(taken.size());
        for (long r : taken) {
            after(time[r], r);
            time[r] += backwards ? -1 : 1;
            if (time[r] >= begin && time[r] < end) waiting[tokens[time[r] * B + r]].push_back(r);
        }
    }
}

inline bool pays(long V, long B, long T) { return B >= 2 * V && T >= 4; }

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

template <class T>
void step_by_token(const Table<T>& table, Groups& groups, const int64_t* tokens, long B, const T* from, T* to,
                   std::vector<const T*>& rows, std::vector<T*>& outs) {
    groups.sort(tokens, table.V, B);
    for (long r = 0; r < B; ++r) {
        rows[r] = from + groups.order[r] * table.H;
        outs[r] = to + groups.order[r] * table.H;
    }
    for (long v = 0; v < table.V; ++v) {
        const long first = groups.begin[v], count = groups.begin[v + 1] - first;
        if (count) table.multiply(v, rows.data() + first, outs.data() + first, count);
    }
}

// states[0] is given; states[t + 1] = A[tokens[t]] states[t], divided by a power of two every `every` steps
template <class T>
void tokens_forward(const T* matrices, const int64_t* tokens, T* states, T* scales, long V, long H, long B, long time,
                    long every) {
    const Table<T> table(matrices, V, H, false, pays(V, B, time));
    auto to = [&](long t, long r) { return states + ((t + 1) * B + r) * H; };
    auto rescale = [&](long t, long r) {
        if (!every || (t + 1) % every) return;
        const T scale = scales[t * B + r] = 1 / power_above(to(t, r), H);
        for (long i = 0; i < H; ++i) to(t, r)[i] *= scale;
    };
    if (!table.packs)
        return move_freely(table, tokens, B, 0, time, false, [&](long t, long r) { return to(t - 1, r); }, to, rescale);
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    for (long t = 0; t < time; ++t) {
        step_by_token(table, groups, tokens + t * B, B, to(t - 1, 0), to(t, 0), rows, outs);
        for (long r = 0; r < B; ++r) rescale(t, r);
    }
}

// the last state only; its scale goes into a logarithm
template <class T>
void tokens_last(const T* matrices, const int64_t* tokens, T* h, double* log_scale, long V, long H, long B, long time,
                 long every) {
    const Table<T> table(matrices, V, H, false, pays(V, B, time));
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    std::vector<T> other(B * H);
    T *from = h, *to = other.data();
    for (long t = 0; t < time; ++t) {
        step_by_token(table, groups, tokens + t * B, B, from, to, rows, outs);
        if ((t + 1) % every == 0)
            for (long r = 0; r < B; ++r) {
                const T most = power_above(to + r * H, H);
                log_scale[r] += std::log(static_cast<double>(most));
                for (long i = 0; i < H; ++i) to[r * H + i] /= most;
            }
        std::swap(from, to);
    }
    if (from != h) std::memcpy(h, from, sizeof(T) * B * H);
}

// adds, for each token v, sum over its events of g h^T to gradient[v], which is written to before if `written` says so;
// events are (time, row) of one stretch of time
template <class T>
void add_outer_products(const int64_t* tokens, const T* g, const T* h, T* gradient, std::vector<char>& written, long V,
                        long H, long count) {
    std::vector<long> begin(V + 1), order(count);
    for (long e = 0; e < count; ++e) ++begin[tokens[e] + 1];
    for (long v = 0; v < V; ++v) begin[v + 1] += begin[v];
    std::vector<long> next(begin.begin(), begin.end() - 1);
    for (long e = 0; e < count; ++e) order[next[tokens[e]]++] = e;
    constexpr int width = Simd<T>::width;
    std::vector<T> right(panels<T>(H) * width * DEPTH);
    std::vector<const T*> left(DEPTH), sources(DEPTH);
    for (long v = 0; v < V; ++v)
        for (long first = begin[v]; first < begin[v + 1]; first += DEPTH) {
            const long depth = std::min(DEPTH, begin[v + 1] - first);
            for (long k = 0; k < depth; ++k) left[k] = g + order[first + k] * H, sources[k] = h + order[first + k] * H;
            pack_rows(sources.data(), depth, H, right.data());
            // few rows of the result at a time: it is written from left to right, and what is multiplied stays near
            const bool add = written[v] != 0;
            for (long i = 0; i < H;) {
                const int some = next_tile(H - i);
                const T* const* from = left.data();
                for (long p = 0; p < panels<T>(H); ++p) {
                    const T* panel = right.data() + p * depth * width;
                    const long live = std::min<long>(width, H - p * width);
                    T* outs[TILE_ROWS];
                    for (int r = 0; r < some; ++r) outs[r] = gradient + (v * H + i + r) * H + p * width;
                    tile<T>(some, [from, i](int r, long k) { return from[k][i + r]; }, panel, outs, depth, live, add);
                }
                i += some;
            }
            written[v] = 1;
        }
}

// grad reaches all states, as [time, row], or, with lengths, only the last state of each row, as [row]. Gradients of the
// table are products over a stretch of time that fits into the cache.
template <class T>
void tokens_backward(const T* matrices, const int64_t* tokens, const T* states, const T* scales, const T* grad,
                     const int64_t* lengths, T* first, T* gradient, long V, long H, long B, long time, long every) {
    if (!time || !B) {
        std::memset(first, 0, sizeof(T) * B * H);
        std::memset(gradient, 0, sizeof(T) * V * H * H);
        return;
    }
    const Table<T> table(matrices, V, H, true, pays(V, B, time));
    const long fits = CACHE / static_cast<long>(B * H * sizeof(T)), enough = DEPTH * V / (2 * B);
    const long stretch = std::max(1L, std::min(time, std::max(fits, enough)));
    Groups groups(V, B);
    std::vector<const T*> rows(B);
    std::vector<T*> outs(B);
    std::vector<T> running(B * H), arriving(stretch * B * H);
    std::vector<char> written(V);
    for (long end = time; end > 0; end -= stretch) {
        const long begin = std::max(0L, end - stretch);
        // completes the gradient that reaches a row's state at a time, and gives it
        auto gather = [&](long t, long r) {
            T* here = arriving.data() + ((t - begin) * B + r) * H;
            std::memcpy(here, running.data() + r * H, sizeof(T) * H);
            if (!lengths || lengths[r] - 1 == t) {
                const T* source = grad + (lengths ? r : t * B + r) * H;
                for (long i = 0; i < H; ++i) here[i] += source[i];
            }
            if (every && (t + 1) % every == 0)
                for (long i = 0; i < H; ++i) here[i] *= scales[t * B + r];
            return here;
        };
        auto to = [&](long t, long r) { return (t ? running.data() : first) + r * H; };
        if (!table.packs)
            move_freely(table, tokens, B, begin, end, true, gather, to, [](long, long) {});
        else
            for (long t = end - 1; t >= begin; --t) {
                for (long r = 0; r < B; ++r) gather(t, r);
                const T* here = arriving.data() + (t - begin) * B * H;
                step_by_token(table, groups, tokens + t * B, B, here, to(t, 0), rows, outs);
            }
        add_outer_products(tokens + begin * B, arriving.data(), states + begin * B * H, gradient, written, V, H,
                           (end - begin) * B);
    }
    for (long v = 0; v < V; ++v)
        if (!written[v]) std::memset(gradient + v * H * H, 0, sizeof(T) * H * H);
}

// The mean cross-entropy of logits U h, or U h / |h|, and its gradients: `to_state` for each row, `to_readout` in all.
template <class T>
T read_out(const T* const* states, const T* readout, const int64_t* answers, T* to_state, T* to_readout, long B, long H,
           long C, bool direction) {
    std::vector<T> unit(H), logits(C);
    std::memset(to_readout, 0, sizeof(T) * C * H);
    T total = 0;
    for (long r = 0; r < B; ++r) {
        T norm = 1;
        if (direction) {
            // the largest entry first: the square of a large or small one would not be there
            const T most = power_above(states[r], H);
            T power = 0;
            for (long i = 0; i < H; ++i) unit[i] = states[r][i] / most, power += unit[i] * unit[i];
            const T length = power > 0 ? std::sqrt(power) : T(1);
            for (long i = 0; i < H; ++i) unit[i] /= length;
            norm = length * most;
        } else {
            std::memcpy(unit.data(), states[r], sizeof(T) * H);
        }
        T top = -INFINITY, sum = 0;
        for (long c = 0; c < C; ++c) {
            T dot = 0;
            for (long i = 0; i < H; ++i) dot += readout[c * H + i] * unit[i];
            logits[c] = dot;
            top = std::max(top, dot);
        }
        for (long c = 0; c < C; ++c) sum += std::exp(logits[c] - top);
        total += std::log(sum) + top - logits[answers[r]];
        T* __restrict__ to = to_state + r * H;
        std::memset(to, 0, sizeof(T) * H);
        for (long c = 0; c < C; ++c) {
            const T g = (std::exp(logits[c] - top) / sum - (c == answers[r])) / B;
            const T* row = readout + c * H;
            T* __restrict__ into = to_readout + c * H;
            for (long i = 0; i < H; ++i) to[i] += g * row[i], into[i] += g * unit[i];
        }
        if (direction) {
            T along = 0;
            for (long i = 0; i < H; ++i) along += to[i] * unit[i];
            for (long i = 0; i < H; ++i) to[i] = (to[i] - along * unit[i]) / norm;
        }
    }
    return total / B;
}

// Loss and gradients of a whole training step of a table of matrices: read words from a first state to their ends, read
// the ends out, and go back. Buffers are used again for the next member, while they are in the cache.
template <class T>
void tokens_train(const T* matrices, const T* initial, const T* readout, const int64_t* tokens, const int64_t* lengths,
                  const int64_t* answers, T* losses, T* to_matrices, T* to_initial, T* to_readout, long M, long V, long H,
                  long C, long B, long time, long every, long direction) {
    std::vector<T> states((time + 1) * B * H), scales(time * B), to_state(B * H), first(B * H);
    std::vector<const T*> ends(B);
    for (long m = 0; m < M; ++m) {
        const T *table = matrices + m * V * H * H, *start = initial + m * H;
        const int64_t *words = tokens + m * time * B, *length = lengths + m * B;
        for (long r = 0; r < B; ++r) std::memcpy(states.data() + r * H, start, sizeof(T) * H);
        tokens_forward(table, words, states.data(), scales.data(), V, H, B, time, every);
        for (long r = 0; r < B; ++r) ends[r] = states.data() + (length[r] * B + r) * H;
        losses[m] = read_out(ends.data(), readout + m * C * H, answers + m * B, to_state.data(), to_readout + m * C * H,
                             B, H, C, direction != 0);
        tokens_backward(table, words, states.data(), scales.data(), to_state.data(), length, first.data(),
                        to_matrices + m * V * H * H, V, H, B, time, every);
        T* __restrict__ into = to_initial + m * H;
        std::memset(into, 0, sizeof(T) * H);
        for (long r = 0; r < B; ++r)
            for (long i = 0; i < H; ++i) into[i] += first[r * H + i];
    }
}

// Diagonals and small blocks, for all blocks n at once: coefficients [b][b][N] and states [b][N], so that the innermost
// loop runs over blocks. Coefficients are those of a token, or, without tokens, those of each (row, time).
template <class T, int FIXED>
void planes_forward(const T* coefficients, const int64_t* tokens, const T* h0, T* out, T* scales, long B, long time,
                    long N, long size, long every) {
    const long b = FIXED ? FIXED : size, H = N * b;
    for (long r = 0; r < B; ++r) {
        const T* h = h0 + r * H;
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
            if (every && (t + 1) % every == 0) {
                const T scale = scales[event] = 1 / power_above(to, H);
                for (long i = 0; i < H; ++i) to[i] *= scale;
            }
            h = to;
        }
    }
}

// gradients of a token's coefficients add up; `gradient` begins as zeros
template <class T, int FIXED>
void planes_backward(const T* coefficients, const int64_t* tokens, const T* h0, const T* out, const T* scales,
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
void planes_forward_any(const T* a, const int64_t* k, const T* h, T* o, T* c, long B, long t, long N, long b, long e) {
    BY_SIZE(planes_forward, a, k, h, o, c, B, t, N, b, e)
}

template <class T>
void planes_backward_any(const T* a, const int64_t* k, const T* h, const T* o, const T* c, const T* g, T* d, T* f,
                         long B, long t, long N, long b, long e) {
    BY_SIZE(planes_backward, a, k, h, o, c, g, d, f, B, t, N, b, e)
}

constexpr double PI = 3.14159265358979323846;

// sine and cosine of an angle from -pi to pi
inline void turn(double angle, double& c, double& s) { c = std::cos(angle), s = std::sin(angle); }

inline void turn(double angle, float& c, float& s) {
    // a quarter turn is taken away first; the rest is within pi / 4, where short polynomials are exact to rounding
    const double quarter = std::nearbyint(angle * (2 / PI));
    const float r = static_cast<float>(angle - quarter * (PI / 2)), z = r * r;
    const float sine = r + r * z * (-1.6666667163e-1f + z * (8.3333337680e-3f + z * (-1.9841270114e-4f + z * 2.7557314297e-6f)));
    const float cosine = 1 + z * (-0.5f + z * (4.1666667908e-2f + z * (-1.3888889225e-3f + z * 2.4801587642e-5f)));
    const int q = static_cast<int>(quarter);
    const float a = q & 1 ? sine : cosine, b = q & 1 ? cosine : sine;
    c = (q + 1) & 2 ? -a : a;
    s = q & 2 ? -b : b;
}

// pairs turned by the sum of all angles so far, which is kept in double and within one turn
template <class T> void turns_forward(const T* angles, const T* h0, T* out, long B, long time, long N) {
    std::vector<double> sums(N);
    std::vector<T> cosines(N), sines(N);
    for (long r = 0; r < B; ++r) {
        std::fill(sums.begin(), sums.end(), 0.0);
        const T* h = h0 + r * 2 * N;
        for (long t = 0; t < time; ++t) {
            const T* angle = angles + (r * time + t) * N;
            double* __restrict__ sum = sums.data();
            T *__restrict__ c = cosines.data(), *__restrict__ s = sines.data();
            for (long n = 0; n < N; ++n) {
                const double total = sum[n] + angle[n];
                sum[n] = total - 2 * PI * std::nearbyint(total * (0.5 / PI));
                turn(sum[n], c[n], s[n]);
            }
            T* __restrict__ to = out + (r * time + t) * 2 * N;
            for (long n = 0; n < N; ++n) {
                to[2 * n] = c[n] * h[2 * n] - s[n] * h[2 * n + 1];
                to[2 * n + 1] = s[n] * h[2 * n] + c[n] * h[2 * n + 1];
            }
        }
    }
}

// with pairs as complex numbers, out = e^(i sum) h0: d(sum) = Im(conj(out) g), and dh0 = h0 / |h0|^2 sum conj(out) g
template <class T>
void turns_backward(const T* angles, const T* h0, const T* out, const T* grad, T* gradient, T* first, long B, long time,
                    long N) {
    std::vector<T> running(N), real(N);
    for (long r = 0; r < B; ++r) {
        T *__restrict__ along = running.data(), *__restrict__ across = real.data();
        std::fill(running.begin(), running.end(), T(0));
        std::fill(real.begin(), real.end(), T(0));
        for (long t = time - 1; t >= 0; --t) {
            const long at = (r * time + t) * N;
            const T *o = out + 2 * at, *g = grad + 2 * at;
            T* __restrict__ d = gradient + at;
            for (long n = 0; n < N; ++n) {
                along[n] += o[2 * n] * g[2 * n + 1] - o[2 * n + 1] * g[2 * n];
                across[n] += o[2 * n] * g[2 * n] + o[2 * n + 1] * g[2 * n + 1];
                d[n] = along[n];
            }
        }
        for (long n = 0; n < N; ++n) {
            T a = h0[(r * N + n) * 2], b = h0[(r * N + n) * 2 + 1], x = 0, y = 0;
            // the largest entry first: the square of a large or small one would not be there
            const T most = std::max(std::abs(a), std::abs(b));
            if (most > 0) {
                a /= most, b /= most;
                const T power = a * a + b * b, s = across[n] / most, t = along[n] / most;
                x = (s * a - t * b) / power;
                y = (s * b + t * a) / power;
            } else {
                double sum = 0;
                for (long t = 0; t < time; ++t) {
                    const long at = (r * time + t) * N + n;
                    sum += angles[at];
                    const double c = std::cos(sum), s = std::sin(sum);
                    x += T(c * grad[2 * at] + s * grad[2 * at + 1]);
                    y += T(c * grad[2 * at + 1] - s * grad[2 * at]);
                }
            }
            first[(r * N + n) * 2] = x, first[(r * N + n) * 2 + 1] = y;
        }
    }
}

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

#define EXPORT(T, NAME)                                                                                              \
    extern "C" void tokens_forward_##NAME(const T* m, const int64_t* k, T* s, T* c, long M, long V, long H, long B, \
                                          long t, long e) {                                                         \
        for (long i = 0; i < M; ++i)                                                                                \
            tokens_forward<T>(m + i * V * H * H, k + i * t * B, s + i * (t + 1) * B * H, c + (e ? i * t * B : 0),   \
                              V, H, B, t, e);                                                                       \
    }                                                                                                               \
    extern "C" void tokens_last_##NAME(const T* m, const int64_t* k, T* h, double* l, long V, long H, long B,       \
                                       long t, long e) {                                                            \
        tokens_last<T>(m, k, h, l, V, H, B, t, e);                                                                  \
    }                                                                                                               \
    extern "C" void tokens_backward_##NAME(const T* m, const int64_t* k, const T* s, const T* c, const T* a,        \
                                           const int64_t* l, T* f, T* g, long M, long V, long H, long B, long t,    \
                                           long e) {                                                                \
        for (long i = 0; i < M; ++i)                                                                                \
            tokens_backward<T>(m + i * V * H * H, k + i * t * B, s + i * (t + 1) * B * H, c + (e ? i * t * B : 0),  \
                               a + i * (l ? 1 : t) * B * H, l ? l + i * B : l, f + i * B * H, g + i * V * H * H, V, \
                               H, B, t, e);                                                                         \
    }                                                                                                               \
    extern "C" void tokens_train_##NAME(const T* m, const T* h, const T* u, const int64_t* k, const int64_t* l,     \
                                        const int64_t* a, T* o, T* dm, T* dh, T* du, long M, long V, long H,        \
                                        long C, long B, long t, long e, long n) {                                   \
        tokens_train<T>(m, h, u, k, l, a, o, dm, dh, du, M, V, H, C, B, t, e, n);                                   \
    }                                                                                                               \
    extern "C" void planes_forward_##NAME(const T* a, const int64_t* k, const T* h, T* o, T* c, long B, long t,     \
                                          long N, long b, long e) {                                                 \
        planes_forward_any<T>(a, k, h, o, c, B, t, N, b, e);                                                        \
    }                                                                                                               \
    extern "C" void planes_backward_##NAME(const T* a, const int64_t* k, const T* h, const T* o, const T* c,        \
                                           const T* g, T* d, T* f, long B, long t, long N, long b, long e) {        \
        planes_backward_any<T>(a, k, h, o, c, g, d, f, B, t, N, b, e);                                              \
    }                                                                                                               \
    extern "C" void turns_forward_##NAME(const T* a, const T* h, T* o, long B, long t, long N) {                    \
        turns_forward<T>(a, h, o, B, t, N);                                                                         \
    }                                                                                                               \
    extern "C" void turns_backward_##NAME(const T* a, const T* h, const T* o, const T* g, T* d, T* f, long B,       \
                                          long t, long N) {                                                         \
        turns_backward<T>(a, h, o, g, d, f, B, t, N);                                                               \
    }                                                                                                               \
    extern "C" void adam_##NAME(T* p, const T* g, T* m, T* v, long M, long n, const double* k, const double* r,     \
                                double b1, double b2, double s, double e) {                                         \
        adam<T>(p, g, m, v, M, n, k, r, b1, b2, s, e);                                                              \
    }

EXPORT(float, float)
EXPORT(double, double)
